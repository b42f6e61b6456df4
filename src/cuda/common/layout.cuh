// SPDX-License-Identifier: BSD-3-Clause
//
// The descriptors of tiles in shared memory. Layouts are code here, so that tests can check them.
// Tiles are 16-bit with the 128-byte swizzle, [columns / 64][rows][64], 1024-byte aligned: TMA
// writes them so and wgmma reads them so.
#pragma once

#include "cuda/ptx/wgmma.cuh"

namespace volley::cuda {

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
