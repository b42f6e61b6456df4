// SPDX-License-Identifier: BSD-3-Clause
//
// A tile in shared memory, [rows][kCols] of 16-bit elements. A row's vectors of 8 are permuted by
// the row number, so that the eight rows that ldmatrix reads at a time lie in different banks.
#pragma once

#include "cuda/ptx/mma.cuh"
#include "cuda/sm80/params.h"

namespace volley::cuda::v2 {

// The thread in the CTA, in its warp; the warp in the CTA: read anew, so that what is computed from
// them does not wait in registers. Unsigned, so that the compiler knows they are not negative.
__device__ __forceinline__ u32 own_thread() {
  return static_cast<u32>(ptx::opaque(static_cast<int>(threadIdx.x)));
}
__device__ __forceinline__ int own_lane() { return static_cast<int>(own_thread() % 32); }
__device__ __forceinline__ int own_warp() { return static_cast<int>(own_thread() / 32); }

template <int kRows, int kCols>
struct Tile {
  static constexpr int kVectors = kCols / 8;  // of a row
  static_assert(kVectors % 8 == 0 || kVectors == 4);

  Bits16* data;

  // Where vector `vector` of row `base + row` lies; `base` is a multiple of 8.
  __device__ __forceinline__ static int offset(int base, int row, int vector) {
    const int permutation = kVectors == 4 ? row / 2 % 4 : row % 8;
    return (base + row) * kCols + (vector ^ permutation) * 8;
  }
  __device__ __forceinline__ Bits16* at(int base, int row, int vector) const {
    return data + offset(base, row, vector);
  }

  // Starts to copy the first `rows` rows and `cols` columns at `from`; the rest becomes zeros, and
  // nothing is read for it. Threads: the CTA, kThreads of them.
  template <int kThreads>
  __device__ __forceinline__ void load(const Bits16* from, i64 row_stride, int rows,
                                       int cols) const {
    if (rows >= kRows) {
      load<kThreads, true>(from, row_stride, rows, cols);
    } else {
      load<kThreads, false>(from, row_stride, rows, cols);
    }
  }

 private:
  template <int kThreads, bool kAllRows>
  __device__ __forceinline__ void load(const Bits16* from, i64 row_stride, int rows,
                                       int cols) const {
    static_assert(kThreads % kVectors == 0 && kRows * kVectors % kThreads == 0);
    constexpr int kStep = kThreads / kVectors;  // rows
    const int vector = static_cast<int>(own_thread() % kVectors);
    const int row = static_cast<int>(own_thread() / kVectors);
    const bool inside = vector * 8 < cols;
    const Bits16* source = from + row * row_stride + vector * 8;
    Bits16* const first = at(0, row, vector);
#pragma unroll
    for (int i = 0; i < kRows / kStep; ++i) {
      const bool valid = inside && (kAllRows || row + i * kStep < rows);
      // Rows eight apart are permuted alike.
      Bits16* const to =
          kStep % 8 == 0 ? first + i * kStep * kCols : at(0, row + i * kStep, vector);
      ptx::copy_async(to, valid || kAllRows ? source : from, valid ? 16 : 0);
      source += kStep * row_stride;
    }
  }
};

// Reads, or writes, a piece of a tile, 16 rows and 16 columns at a time: the four 8x8 matrices of
// an ldmatrix. Both coordinates of an access are constants, so it takes an exclusive or, a sum and
// the access.
template <int kCols>
class Fragments {
 public:
  // The piece begins at (first_row, first_col), multiples of 16. Matrices 0 and 1 lie one below the
  // other, 2 and 3 right of them: A fragments and, transposed, those of B.
  template <int kRows>
  __device__ __forceinline__ static Fragments down(const Tile<kRows, kCols>& tile, int first_row,
                                                   int first_col) {
    const int lane = own_lane();
    return {tile.data, tile.offset(first_row, lane % 16, first_col / 8 + lane / 16)};
  }
  // Matrices 0 and 1 lie side by side, 2 and 3 below them: B fragments of the product with the
  // transposed tile and, transposed, A fragments of the transposed tile.
  template <int kRows>
  __device__ __forceinline__ static Fragments across(const Tile<kRows, kCols>& tile, int first_row,
                                                     int first_col) {
    const int lane = own_lane();
    return {tile.data,
            tile.offset(first_row, lane / 16 * 8 + lane % 8, first_col / 8 + lane / 8 % 2)};
  }

  // The pairs of an accumulator: row lane / 4, columns 2 (lane % 4) and the next.
  template <int kRows>
  __device__ __forceinline__ static Fragments pairs(const Tile<kRows, kCols>& tile, int first_row,
                                                    int first_col) {
    const int lane = own_lane();
    return {tile.data, tile.offset(first_row, lane / 4, first_col / 8) + lane % 4 * 2};
  }

  // From (row, col) of the piece on, multiples of 16, of pairs of 8; `col` and `first_col` have no
  // bit in common, as where the width of pieces is a power of two. Threads: a whole warp.
  __device__ __forceinline__ void load(int row, int col, u32 (&r)[4]) const {
    ptx::load_matrices(at(row, col), r);
  }
  __device__ __forceinline__ void load_transposed(int row, int col, u32 (&r)[4]) const {
    ptx::load_transposed(at(row, col), r);
  }
  __device__ __forceinline__ void store_pair(int row, int col, u32 pair) const {
    *reinterpret_cast<u32*>(at(row, col)) = pair;
  }

 private:
  __device__ __forceinline__ Fragments(Bits16* data, int offset) : data_(data), offset_(offset) {}

  __device__ __forceinline__ Bits16* at(int row, int col) const {
    return data_ + ((offset_ ^ col % 64) + row * kCols + col / 64 * 64);
  }

  Bits16* data_;
  int offset_;  // of the lane's row of the first matrices
};

}  // namespace volley::cuda::v2
