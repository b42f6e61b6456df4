// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels, by the addresses of their entries: what device code (instances/*.cu, passes/*.cu)
// gives to the host. Plain C++.
#pragma once

#include "cuda/config.h"

namespace volley::cuda {

template <int kRow>
const void* fwd_kernel();  // the kernel of kFwdConfigs[kRow]

const void* fill_kernel();  // takes FwdParams, as all of them do

}  // namespace volley::cuda
