// SPDX-License-Identifier: BSD-3-Clause
//
// From a row of the table to its kernel, as in cuda/sm90/instance.cuh.
#pragma once

#include "cuda/sm80/backward.cuh"
#include "cuda/sm80/forward.cuh"
#include "cuda/sm80/kernels.h"

namespace volley::cuda::v2 {

template <int kRow>
__global__ void __launch_bounds__(threads(forward_config(kRow)))
    v2_forward(const __grid_constant__ ForwardParams p) {
  forward<forward_config(kRow)>(p);
}

// Looks from kRow on.
template <int kD, int kRow>
const void* find_entry(int row) {
  if constexpr (kRow == kForwardRows) {
    return nullptr;
  } else {
    if constexpr (forward_config(kRow).d == kD) {
      if (row == kRow) return reinterpret_cast<const void*>(&v2_forward<kRow>);
    }
    return find_entry<kD, kRow + 1>(row);
  }
}

template <int kD>
const void* forward_kernel_of(int row) {
  return find_entry<kD, 0>(row);
}

template <int kRow>
__global__ void __launch_bounds__(threads(backward_config(kRow)))
    v2_backward(const __grid_constant__ BackwardParams p) {
  backward<backward_config(kRow)>(p);
}

template <int kD, int kRow>
const void* find_backward_entry(int row) {
  if constexpr (kRow == kBackwardRows) {
    return nullptr;
  } else {
    if constexpr (backward_config(kRow).d == kD) {
      if (row == kRow) return reinterpret_cast<const void*>(&v2_backward<kRow>);
    }
    return find_backward_entry<kD, kRow + 1>(row);
  }
}

template <int kD>
const void* backward_kernel_of(int row) {
  return find_backward_entry<kD, 0>(row);
}

}  // namespace volley::cuda::v2
