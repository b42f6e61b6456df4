// SPDX-License-Identifier: BSD-3-Clause
//
// Which keys a query sees. Every mask here is a limit: a row sees the keys before it. Scores of
// hidden keys become -infinity, the real one.
#pragma once

#include "cuda/common/layout.cuh"
#include "cuda/params.h"

namespace volley::cuda {

constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);

// The number of keys that query `row` sees. It may be negative.
template <MaskKind kMask>
__device__ __forceinline__ int visible_keys(const FwdParams& p, int row) {
  if constexpr (kMask == MaskKind::kFull) return p.sk;
  return min(p.sk, row + 1 + p.offset);
}

// The number of leading blocks in which no query from `first_row` on has a hidden key.
template <MaskKind kMask, int kBlockN>
__device__ __forceinline__ int unmasked_blocks(const FwdParams& p, int first_row) {
  return max(0, visible_keys<kMask>(p, first_row)) / kBlockN;
}

// Hides scores of keys at or past the limits of the thread's two rows, both counted from the
// block's first key. Threads: any; registers: s in place.
template <int kCount>
__device__ __forceinline__ void hide(float (&s)[kCount], const int (&limit)[2], int first_col) {
  const int left[2] = {limit[0] - first_col, limit[1] - first_col};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (Accumulator::col_offset(i) >= left[Accumulator::slot(i)]) s[i] = -kInfinity;
  }
}

}  // namespace volley::cuda
