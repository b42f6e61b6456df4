// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel for the compiler's own target, SSE2 on x86-64: runs everywhere.
// CMakeLists.txt sets the flags; see attend.inc.h.
#include "cpu/kernel/attend.inc.h"

namespace volley::core {

constinit const Kernel kBaselineKernel = {"baseline", attend, exp_in_place, tanh_in_place};

}  // namespace volley::core
