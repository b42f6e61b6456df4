// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels, by the addresses of their entries: what device code (instances/*.cu) gives to
// the host. Plain C++.
#pragma once

#include "cuda/config.h"

namespace volley::cuda {

// The kernel of fwd_config(row) (config_table.h), whose head dimensions are (kD, kDv).
template <int kD, int kDv>
const void* fwd_kernel(int row);

#if VOLLEY_EXPERIMENTS
const void* experimental_kernel(int row);  // row >= kProductRows
#endif

}  // namespace volley::cuda
