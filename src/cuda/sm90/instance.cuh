// SPDX-License-Identifier: BSD-3-Clause
//
// From a row of kFwdConfigs to its kernel: instances/*.cu instantiate fwd_kernel, launch.cpp
// collects the results. The entry takes the row's number, since nvcc 13.0 cannot spell a struct
// as a template argument in the host code it generates for a kernel.
#pragma once

#include "cuda/kernels.h"
#include "cuda/sm90/forward.cuh"

namespace volley::cuda {

template <int kRow>
__global__ void __launch_bounds__(threads(kFwdConfigs[kRow]), 1)
    fwd_entry(const __grid_constant__ FwdParams p) {
  forward<kFwdConfigs[kRow]>(p);
}

template <int kRow>
const void* fwd_kernel() {
  return reinterpret_cast<const void*>(&fwd_entry<kRow>);
}

}  // namespace volley::cuda
