// SPDX-License-Identifier: BSD-3-Clause
//
// From a row of the table to its kernel. instances/*.cu instantiate fwd_kernel, one head dimension
// each; launch.cpp calls it. The entry takes the row's number, since nvcc 13.0 cannot spell a
// struct as a template argument in the host code it generates for a kernel.
#pragma once

#include "cuda/config_table.h"
#include "cuda/kernels.h"
#include "cuda/sm90/forward.cuh"

namespace volley::cuda {

template <int kRow>
__global__ void __launch_bounds__(threads(fwd_config(kRow)), 1)
    fwd_entry(const __grid_constant__ FwdParams p) {
  forward<fwd_config(kRow)>(p);
}

// Looks from kRow on.
template <int kD, int kDv, int kRow>
const void* find_entry(int row) {
  if constexpr (kRow == kProductRows) {
    return nullptr;
  } else {
    constexpr FwdConfig kConfig = fwd_config(kRow);
    if constexpr (kConfig.d == kD && kConfig.dv == kDv) {
      if (row == kRow) return reinterpret_cast<const void*>(&fwd_entry<kRow>);
    }
    return find_entry<kD, kDv, kRow + 1>(row);
  }
}

template <int kD, int kDv>
const void* fwd_kernel(int row) {
  return find_entry<kD, kDv, 0>(row);
}

}  // namespace volley::cuda
