// SPDX-License-Identifier: BSD-3-Clause
//
// The coordinates of a thread's registers in the fragments of matrix products: the same for
// wgmma and for mma.sync.
#pragma once

namespace volley::cuda {

// The fp32 accumulator of a wgmma m64nN, and of neighbouring mma.m16n8 of each warp: register i of
// a thread holds C[row(i)][col(i)]. Each thread has two rows, eight apart; slot(i) says which of
// them register i belongs to.
struct Accumulator {
  int thread;  // 0..127 in the warpgroup

  static constexpr int kRows = 2;
  __host__ __device__ constexpr int first_row() const { return thread / 32 * 16 + thread % 32 / 4; }
  __host__ __device__ constexpr int first_col() const { return thread % 4 * 2; }
  __host__ __device__ static constexpr int slot(int i) { return i / 2 % 2; }
  // From first_col to col(i).
  __host__ __device__ static constexpr int col_offset(int i) { return i / 4 * 8 + i % 2; }
  __host__ __device__ constexpr int row(int i) const { return first_row() + 8 * slot(i); }
  __host__ __device__ constexpr int col(int i) const { return first_col() + col_offset(i); }
};

// The A operand of m64k16 (and m16k16), 16-bit: register r of k-step `step` holds the accumulator's
// columns [16 step, 16 step + 16) at index 8 step + 2 r and the one after. So converting an
// accumulator to A fragments moves nothing between threads: pairs are packed in order.
struct AFragment {
  __host__ __device__ static constexpr int source(int step, int r) { return 8 * step + 2 * r; }
  static constexpr int kRegisters = 4;  // a k-step
};

}  // namespace volley::cuda
