// SPDX-License-Identifier: BSD-3-Clause
//
// Copies a tensor of any strides into one that the kernels can read (Operand).
#pragma once

#include "cuda/ptx/core.cuh"
#include "cuda/sm80/params.h"

namespace volley::cuda::v2 {

// Of the element at offset `at`, in the low half.
__device__ __forceinline__ u32 bits_at(const PackParams& p, i64 at) {
  if (p.from_type != kF32) return static_cast<const Bits16*>(p.from)[at].bits;
  const float value = static_cast<const float*>(p.from)[at];
  return p.to_type == kBf16 ? ptx::pack_bf16(value, 0.f) : ptx::pack_f16(value, 0.f);
}

// Vector after vector of 8 elements. Threads: any.
__device__ __forceinline__ void pack(const PackParams& p) {
  const i64 first = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  const int row_vectors = (p.columns + 7) / 8;
  for (i64 i = first; i < p.vectors; i += step) {
    const i64 token = i / row_vectors / p.heads;
    const int vector = static_cast<int>(i % row_vectors);
    const int head = static_cast<int>(i / row_vectors % p.heads);
    const i64 row = token / p.rows * p.stride.axis[0] + token % p.rows * p.stride.axis[1] +
                    head * p.stride.axis[2];
    u32 words[4] = {0, 0, 0, 0};
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int col = 8 * vector + j;
      if (col < p.columns) words[j / 2] |= bits_at(p, row + col * p.stride.axis[3]) << j % 2 * 16;
    }
    *reinterpret_cast<uint4*>(p.to + 8 * i) = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

}  // namespace volley::cuda::v2
