// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel for AVX2 and FMA (2013 on).
// CMakeLists.txt sets the flags; see attend.inc.h.
#include "cpu/kernel/attend.inc.h"

namespace volley::core {

constinit const Kernel kAvx2Kernel = {"avx2", attend, exp_in_place, tanh_in_place};

}  // namespace volley::core
