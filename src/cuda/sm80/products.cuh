// SPDX-License-Identifier: BSD-3-Clause
//
// The matrix products of a warp. It owns kGroups groups of 16 rows of the result, and each B
// fragment that it reads serves all of them. Addresses are computed anew for each product, so that
// they do not take registers while another runs.
#pragma once

#include "cuda/common/fragment.cuh"
#include "cuda/sm80/tile.cuh"

namespace volley::cuda::v2 {

// c += A B for kGroups groups of 16 rows and kCount / 8 parts of 16 columns, kSteps times 16 along
// the sum. read_a(step, group, fragment) and read_b(step, part, fragment) read operands, kAhead
// parts before their products; meanwhile() is called once the first are on their way.
// Threads: a whole warp.
template <Element kElement, int kSteps, int kAhead, int kGroups, int kCount, class ReadA,
          class ReadB, class Meanwhile>
__device__ __forceinline__ void multiply_ahead(float (&c)[kGroups][kCount], const ReadA& read_a,
                                               const ReadB& read_b, const Meanwhile& meanwhile) {
  constexpr int kParts = kCount / 8, kProducts = kSteps * kParts;
  u32 left[2][kGroups][4], right[kAhead + 1][4];
#pragma unroll
  for (int i = -kAhead; i < kProducts; ++i) {
    if (const int next = i + kAhead; next < kProducts) {
      const int step = next / kParts, part = next % kParts;
      if (part == 0) {
#pragma unroll
        for (int g = 0; g < kGroups; ++g) read_a(step, g, left[step % 2][g]);
      }
      read_b(step, part, right[next % (kAhead + 1)]);
    }
    if (i == 0) meanwhile();
    if (i < 0) continue;
    const int step = i / kParts, first = 8 * (i % kParts);
    const u32(&b)[4] = right[i % (kAhead + 1)];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const u32(&a)[4] = left[step % 2][g];
      ptx::mma<kElement>(&c[g][first], a, b[0], b[1]);
      ptx::mma<kElement>(&c[g][first + 4], a, b[2], b[3]);
    }
  }
}

// c += A B^T: rows [row, row + 16 kGroups) of `a` with rows [first, first + 2 kCount) of `b`, over
// kCols columns. What tiles hold in the columns past the call's head dim are zeros.
// Threads: a whole warp.
template <Element kElement, int kAhead, int kGroups, int kRowsA, int kRowsB, int kCols, int kCount,
          class Meanwhile>
__device__ __forceinline__ void multiply_transposed(const Tile<kRowsA, kCols>& a, int row,
                                                    const Tile<kRowsB, kCols>& b, int first,
                                                    float (&c)[kGroups][kCount],
                                                    const Meanwhile& meanwhile) {
  const auto of_a = Fragments<kCols>::down(a, row, 0), of_b = Fragments<kCols>::across(b, first, 0);
  multiply_ahead<kElement, kCols / 16, kAhead>(
      c, [&](int step, int g, u32(&to)[4]) { of_a.load(16 * g, 16 * step, to); },
      [&](int step, int part, u32(&to)[4]) { of_b.load(16 * part, 16 * step, to); }, meanwhile);
}

// c += A B with A in registers, as its fragments: kRows columns of A, rows of `b`.
// Threads: a whole warp.
template <Element kElement, int kGroups, int kRows, int kCols>
__device__ __forceinline__ void multiply(const u32 (&a)[kGroups][kRows / 4],
                                         const Tile<kRows, kCols>& b,
                                         float (&c)[kGroups][kCols / 2]) {
  const auto of_b = Fragments<kCols>::down(b, 0, 0);
  multiply_ahead<kElement, kRows / 16, 1>(
      c,
      [&](int step, int g, u32(&to)[4]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) to[i] = a[g][4 * step + i];
      },
      [&](int step, int part, u32(&to)[4]) { of_b.load_transposed(16 * step, 16 * part, to); },
      [] {});
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
  multiply_ahead<kElement, kRowsB / 16, 0>(
      c,
      [&](int step, int g, u32(&to)[4]) {
        if constexpr (kTransposed) {
          of_a.load_transposed(16 * step, 16 * g, to);
        } else {
          of_a.load(16 * g, 16 * step, to);
        }
      },
      [&](int step, int part, u32(&to)[4]) { of_b.load_transposed(16 * step, 16 * part, to); },
      [] {});
}

}  // namespace volley::cuda::v2
