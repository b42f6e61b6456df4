// SPDX-License-Identifier: BSD-3-Clause
//
// The matrix products of a warp. It owns kGroups groups of 16 rows of the result, and each B
// fragment that it reads serves all of them. Addresses are computed anew for each product, so that
// they do not take registers while another runs.
#pragma once

#include "cuda/common/fragment.cuh"
#include "cuda/sm80/tile.cuh"

namespace volley::cuda::v2 {

// c += A B^T: rows [row, row + 16 kGroups) of `a` with all rows of `b`, over kCols columns. What
// tiles hold in the columns past the call's head dim are zeros. Threads: a whole warp.
template <Element kElement, int kGroups, int kRowsA, int kRowsB, int kCols>
__device__ __forceinline__ void multiply_transposed(const Tile<kRowsA, kCols>& a, int row,
                                                    const Tile<kRowsB, kCols>& b,
                                                    float (&c)[kGroups][kRowsB / 2]) {
  const int lane = ptx::opaque(static_cast<int>(threadIdx.x) % 32);
#pragma unroll
  for (int step = 0; step < kCols / 16; ++step) {
    u32 left[kGroups][4];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) a.a_fragment(lane, row + 16 * g, step, left[g]);
#pragma unroll
    for (int n = 0; n < kRowsB; n += 16) {
      u32 right[4];
      b.b_of_transposed(lane, n, step, right);
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        ptx::mma<kElement>(&c[g][n / 2], left[g], right[0], right[1]);
        ptx::mma<kElement>(&c[g][n / 2 + 4], left[g], right[2], right[3]);
      }
    }
  }
}

// c += A B with A in registers, as its fragments: kRows columns of A, rows of `b`.
// Threads: a whole warp.
template <Element kElement, int kGroups, int kRows, int kCols>
__device__ __forceinline__ void multiply(const u32 (&a)[kGroups][kRows / 4],
                                         const Tile<kRows, kCols>& b,
                                         float (&c)[kGroups][kCols / 2]) {
  const int lane = ptx::opaque(static_cast<int>(threadIdx.x) % 32);
#pragma unroll
  for (int step = 0; step < kRows / 16; ++step) {
#pragma unroll
    for (int group = 0; group < kCols / 16; ++group) {
      u32 right[4];
      b.b_fragment(lane, 16 * step, group, right);
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        ptx::mma<kElement>(&c[g][8 * group], &a[g][4 * step], right[0], right[1]);
        ptx::mma<kElement>(&c[g][8 * group + 4], &a[g][4 * step], right[2], right[3]);
      }
    }
  }
}

// c += A B^T: rows [row, row + 16 kGroups) of `a` with rows [first, first + 2 kCount) of `b`, over
// kCols columns. What tiles hold in the columns past the call's head dim are zeros.
// Threads: a whole warp.
template <Element kElement, int kGroups, int kRowsA, int kRowsB, int kCols, int kCount>
__device__ __forceinline__ void multiply_part(const Tile<kRowsA, kCols>& a, int row,
                                              const Tile<kRowsB, kCols>& b, int first,
                                              float (&c)[kGroups][kCount]) {
  const auto of_a = Fragments<kCols>::down(a, row, 0), of_b = Fragments<kCols>::across(b, first, 0);
#pragma unroll
  for (int k = 0; k < kCols; k += 16) {
    u32 left[kGroups][4];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) of_a.load(16 * g, k, left[g]);
#pragma unroll
    for (int n = 0; n < 2 * kCount; n += 16) {
      u32 right[4];
      of_b.load(n, k, right);
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        ptx::mma<kElement>(&c[g][n / 2], left[g], right[0], right[1]);
        ptx::mma<kElement>(&c[g][n / 2 + 4], left[g], right[2], right[3]);
      }
    }
  }
}

// c += op(A) B with all columns of op(A), which is `a` or, with kTransposed, `a` transposed: rows
// [row, row + 16 kGroups) of op(A), columns [first, first + 2 kCount) of `b`; both are multiples of
// 16. Threads: a whole warp.
template <Element kElement, bool kTransposed, int kGroups, int kRowsA, int kColsA, int kRowsB,
          int kColsB, int kCount>
__device__ __forceinline__ void multiply_columns(const Tile<kRowsA, kColsA>& a, int row,
                                                 const Tile<kRowsB, kColsB>& b, int first,
                                                 float (&c)[kGroups][kCount]) {
  static_assert(kRowsB == (kTransposed ? kRowsA : kColsA));
  const auto of_a =
      kTransposed ? Fragments<kColsA>::across(a, 0, row) : Fragments<kColsA>::down(a, row, 0);
  const auto of_b = Fragments<kColsB>::down(b, 0, first);
#pragma unroll
  for (int k = 0; k < kRowsB; k += 16) {
    u32 left[kGroups][4];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if constexpr (kTransposed) {
        of_a.load_transposed(k, 16 * g, left[g]);
      } else {
        of_a.load(16 * g, k, left[g]);
      }
    }
#pragma unroll
    for (int n = 0; n < 2 * kCount; n += 16) {
      u32 right[4];
      of_b.load_transposed(k, n, right);
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        ptx::mma<kElement>(&c[g][n / 2], left[g], right[0], right[1]);
        ptx::mma<kElement>(&c[g][n / 2 + 4], left[g], right[2], right[3]);
      }
    }
  }
}

}  // namespace volley::cuda::v2
