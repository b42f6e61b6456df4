// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel for the compiler's own target: runs everywhere. Without flags that is SSE2 on x86-64,
// where Highway emulates vectors of 128 bits and the compiler makes SSE2 of them.
// CMakeLists.txt sets the flags; see attend.inc.h.
#include "cpu/kernel/attend.inc.h"
#include "cpu/kernel/gradients.inc.h"

namespace volley::core {

constinit const Kernel kPortableKernel = {"portable",      attend, gradients,    load_queries,
                                          logit_gradients, dot,    exp_in_place, tanh_in_place};

}  // namespace volley::core
