// SPDX-License-Identifier: BSD-3-Clause
//
// dbias: from a thread's dS to memory, and from sums to dbias. Formulas: docs/contract.md.
#pragma once

#include "cuda/common/softmax.cuh"
#include "cuda/sm80/extras.cuh"
#include "cuda/sm80/output.cuh"
#include "cuda/sm80/query_gradients.h"

namespace volley::cuda::v2 {

// The sum over the eight lanes that hold the same columns of different rows. Threads: a whole warp.
__device__ __forceinline__ float sum_of_rows(float x) {
  x += ptx::shuffle_xor(x, 4);
  x += ptx::shuffle_xor(x, 8);
  return x + ptx::shuffle_xor(x, 16);
}

// Sums over the block's keys. Threads: a whole warp.
template <int kCount>
__device__ __forceinline__ void add_over_keys(const BiasGradient& bias, const Place& at,
                                              const float (&ds)[kCount]) {
  float* const sums = bias.sums + index(bias.sum_stride, at.batch, at.head, 0, 0);
  float rows[2] = {0.f, 0.f};
#pragma unroll
  for (int i = 0; i < kCount; ++i) rows[Accumulator::slot(i)] += ds[i];
#pragma unroll
  for (float& sum : rows) sum = quad_sum(sum);
  if (bias.over_rows != 0) {
    const float sum = sum_of_rows(rows[0] + rows[1]);
    if (threadIdx.x % 32 == 0) ptx::add_atomically(sums, sum);
    return;
  }
#pragma unroll
  for (int slot = 0; slot < 2; ++slot) {
    const int row = at.row + 8 * slot;
    if (threadIdx.x % 4 == 0 && row < at.sq) {
      ptx::add_atomically(sums + row * bias.sum_stride.axis[2], rows[slot]);
    }
  }
}

// dS of 16 keys: to where they belong, or to the sums, where a warp adds the rows of a key that
// share an element once. Pairs outside the sequence have none. Threads: a whole warp.
__device__ __forceinline__ void put_sixteen(const QueryGradientParams& p, const Place& at,
                                            const float* ds) {
  const BiasGradient& bias = p.bias;
  float* const sums = bias.sums + index(bias.sum_stride, at.batch, at.head, 0, 0);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int slot = Accumulator::slot(i);
    const int row = at.row + 8 * slot, key = at.key + Accumulator::col_offset(i);
    float value = ds[i];
    bool own = row < at.sq && key < at.sk;
    if (bias.over_rows != 0) {
      if (slot == 1) continue;  // comes with the row eight before
      value = sum_of_rows(value + ds[i + 2]);
      own = threadIdx.x % 32 < 4 && key < at.sk;
    }
    if (!own) continue;
    if (bias.sums != nullptr) {
      ptx::add_atomically(sums + row * bias.sum_stride.axis[2] + key * bias.sum_stride.axis[3],
                          value);
    } else {
      put_number(bias.out, row_of(bias.out, at.batch, at.head, row), key, value, p.accumulate != 0);
    }
  }
}

// dS of a block: zero where a pair is not seen. It goes round in its registers, so that there is
// code for 16 keys only. Threads: a whole warp.
template <int kCount>
__device__ __forceinline__ void bias_gradient(const QueryGradientParams& p, Place at,
                                              float (&ds)[kCount]) {
  if (p.bias.sums == nullptr && p.bias.out.data == nullptr) return;
  if (p.bias.over_keys != 0) return add_over_keys(p.bias, at, ds);
#pragma unroll 1
  for (int piece = 0; piece < kCount / 8; ++piece) {
    put_sixteen(p, at, ds);
    at.key += 16;
    float first[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) first[i] = ds[i];
#pragma unroll
    for (int i = 0; i < kCount; ++i) ds[i] = i + 8 < kCount ? ds[i + 8] : first[i + 8 - kCount];
  }
}

// Element after element. Threads: any.
__device__ __forceinline__ void write_dbias(const DbiasParams& p) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.elements; i += step) {
    const int key = static_cast<int>(i % p.keys);
    const int row = static_cast<int>(i / p.keys % p.rows);
    const i64 batch_head = i / p.keys / p.rows;
    char* const to =
        row_of(p.dbias, static_cast<int>(batch_head / p.heads), batch_head % p.heads, row);
    put_number(p.dbias, to, key, p.sums != nullptr ? p.sums[i] : 0.f, p.accumulate != 0);
  }
}

}  // namespace volley::cuda::v2
