// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel for AVX-512 F, BW, DQ and VL (2017 on).
// CMakeLists.txt sets the flags; see attend.inc.h.
#include "cpu/kernel/attend.inc.h"
#include "cpu/kernel/gradients.inc.h"

#if HWY_TARGET != HWY_AVX3
#  error "the flags of this file do not give Highway's target AVX3"
#endif

namespace volley::core {

constinit const Kernel kAvx512Kernel = {"avx512",        attend, gradients,    load_queries,
                                        logit_gradients, dot,    exp_in_place, tanh_in_place};

}  // namespace volley::core
