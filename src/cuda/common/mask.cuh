// SPDX-License-Identifier: BSD-3-Clause
//
// Which keys a query sees. Every mask here is a range of keys that moves with the row. Scores of
// hidden keys become -infinity, the real one.
#pragma once

#include "cuda/common/fragment.cuh"
#include "cuda/config.h"
#include "cuda/params.h"

namespace volley::cuda {

constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);

// Query i of a sequence sees key j iff i + low <= j < i + high and j < sk.
struct Band {
  int low;   // kGeneral only
  int high;  // not kFull
  int sk;
};

template <MaskKind kMask>
__device__ __forceinline__ Band band_of(const FwdParams& p, int sq, int sk) {
  if constexpr (kMask == MaskKind::kFull) return {0, 0, p.sk};
  if constexpr (kMask == MaskKind::kCausal) return {0, 1 + p.offset, p.sk};
  const int shift = p.lengths.relative != 0 ? sk - sq : 0;
  return {p.lengths.low + shift, p.lengths.high + shift, sk};
}

// The first key that query `row` sees, unless it sees none.
template <MaskKind kMask>
__device__ __forceinline__ int first_key(const Band& band, int row) {
  return kMask == MaskKind::kGeneral ? max(0, row + band.low) : 0;
}

// The key after the last that query `row` sees. It may be negative.
template <MaskKind kMask>
__device__ __forceinline__ int end_key(const Band& band, int row) {
  return kMask == MaskKind::kFull ? band.sk : min(band.sk, row + band.high);
}

// Hides scores of keys outside the ranges of the thread's two rows, which are counted from the
// thread's first column. Threads: any; registers: s in place.
template <MaskKind kMask, int kCount>
__device__ __forceinline__ void hide(float (&s)[kCount], const int (&first)[2],
                                     const int (&end)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int col = Accumulator::col_offset(i), slot = Accumulator::slot(i);
    const bool before = kMask == MaskKind::kGeneral && col < first[slot];
    if (before || col >= end[slot]) s[i] = -kInfinity;
  }
}

}  // namespace volley::cuda
