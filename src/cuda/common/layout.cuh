// SPDX-License-Identifier: BSD-3-Clause
//
// Where things lie: the coordinates of a thread's registers in wgmma fragments, and the
// descriptors of tiles in shared memory. Layouts are code here, so that tests can check them.
// Tiles are 16-bit with the 128-byte swizzle, [columns / 64][rows][64], 1024-byte aligned: TMA
// writes them so and wgmma reads them so.
#pragma once

#include "cuda/ptx/wgmma.cuh"

namespace volley::cuda {

// The fp32 accumulator of m64nN: register i of a thread holds C[row(i)][col(i)]. Each thread has
// two rows, eight apart; slot(i) says which of them register i belongs to.
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

// The A operand of m64k16, 16-bit: register r of k-step `step` holds the accumulator's columns
// [16 step, 16 step + 16) at index 8 step + 2 r and the one after. So converting an accumulator
// to A fragments moves nothing between threads: pairs are packed in order.
struct AFragment {
  __host__ __device__ static constexpr int source(int step, int r) { return 8 * step + 2 * r; }
  static constexpr int kRegisters = 4;  // a k-step
};

// Descriptors count in units of 16 bytes.
__host__ __device__ constexpr u64 units(int elements) {
  return static_cast<u64>(elements) * 2 / 16;
}

// The wgmma descriptor of a 128-byte-swizzled tile at `address`. `leading` is the distance of
// neighbouring 64-column chunks (used for MN-major tiles only); groups of 8 rows are 1024 bytes
// apart.
__device__ __forceinline__ u64 descriptor(u32 address, int leading_elements) {
  constexpr u64 kSwizzle128 = u64{1} << 62;
  constexpr u64 kGroupStride = u64{1024 >> 4} << 32;
  return (address & 0x3ffff) >> 4 | units(leading_elements) << 16 | kGroupStride | kSwizzle128;
}

// A tile whose columns are the product's k (Q, K): the advance to k-step `step` of 16 columns.
template <int kRows>
__host__ __device__ constexpr u64 k_major_step(int step) {
  return units(step / 4 * kRows * kChunk + step % 4 * 16);
}

// A tile whose rows are the product's k (V): the advance to k-step `step` of 16 rows.
__host__ __device__ constexpr u64 mn_major_step(int step) { return units(step * 16 * kChunk); }

}  // namespace volley::cuda
