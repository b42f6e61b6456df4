// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels that compute dq by query tiles, and the way to them.
#include "cuda/sm80/kernels.h"
#include "cuda/sm80/query_gradients.cuh"

namespace volley::cuda::v2 {

template <int kRow>
__global__ void __launch_bounds__(threads(query_config(kRow)))
    v2_query_gradients(const __grid_constant__ QueryGradientParams p) {
  query_gradients<query_config(kRow)>(p);
}

// Looks from kRow on.
template <int kRow>
const void* find_query_entry(int row) {
  if constexpr (kRow == kQueryRows) {
    return nullptr;
  } else {
    if (row == kRow) return reinterpret_cast<const void*>(&v2_query_gradients<kRow>);
    return find_query_entry<kRow + 1>(row);
  }
}

const void* query_kernel(int row) { return find_query_entry<0>(row); }

}  // namespace volley::cuda::v2
