// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel for AVX2 with FMA, BMI and BMI2 (2013 on).
// CMakeLists.txt sets the flags; see attend.inc.h.
#include "cpu/kernel/attend.inc.h"
#include "cpu/kernel/gradients.inc.h"

#if HWY_TARGET != HWY_AVX2
#  error "the flags of this file do not give Highway's target AVX2"
#endif

namespace volley::core {

constinit const Kernel kAvx2Kernel = {"avx2",          attend, gradients,    load_queries,
                                      logit_gradients, dot,    exp_in_place, tanh_in_place};

}  // namespace volley::core
