// SPDX-License-Identifier: BSD-3-Clause
//
// The end of a tile: O / sum and the LSE, straight from registers to global memory. Rows past sq
// are skipped, which is all the clipping there is. A row that saw no key gets O = 0, LSE = -inf.
#pragma once

#include "cuda/common/softmax.cuh"
#include "cuda/common/tile.cuh"

namespace volley::cuda {

constexpr float kLn2 = 0.693147180559945309f;

// One row's values of two neighbouring groups of 8 columns, normalised. Lanes of a pair swap
// halves, so that each stores 8 bytes and a quad 32 in a row. Threads: a whole warp.
template <int kCount>
__device__ __forceinline__ void store_pair(const float (&o)[kCount], int group, int slot,
                                           float factor, bool empty, Bf16* row, bool inside) {
  u32 own[2];
#pragma unroll
  for (int g = 0; g < 2; ++g) {
    const int i = 4 * (group + g) + 2 * slot;
    own[g] = ptx::pack_bf16(empty ? 0.f : o[i] * factor, empty ? 0.f : o[i + 1] * factor);
  }
  const bool odd = threadIdx.x % 2 != 0;
  const u32 kept = odd ? own[1] : own[0];
  const u32 received = ptx::shuffle_xor(odd ? own[0] : own[1], 1);
  const int col = 8 * (group + (odd ? 1 : 0)) + (threadIdx.x % 4 / 2) * 4;
  if (inside) {
    *reinterpret_cast<uint2*>(row + col) =
        odd ? make_uint2(received, kept) : make_uint2(kept, received);
  }
}

// Writes one warpgroup's 64 rows, the first of them `first_row` of the sequence.
// Threads: a warpgroup. Registers: o and rows are read, not in flight.
template <int kCount>
__device__ __forceinline__ void store_tile(const FwdParams& p, const Tile& tile, int first_row,
                                           const RowState& rows, const float (&o)[kCount]) {
  const Accumulator at{static_cast<int>(threadIdx.x % 128)};
#pragma unroll
  for (int slot = 0; slot < 2; ++slot) {
    const float sum = quad_sum(rows.sum[slot]);
    const bool empty = sum == 0.f;  // no key at all: the largest P is 1 or more. NaN goes on.
    const int row = first_row + at.first_row() + 8 * slot;
    const bool inside = row < p.sq;
    const float factor = ptx::reciprocal(sum);
    Bf16* const o_row =
        p.o + tile.batch * p.o_stride.batch + tile.head * p.o_stride.head + row * p.o_stride.row;
#pragma unroll
    for (int group = 0; group < kCount / 4; group += 2) {
      store_pair(o, group, slot, factor, empty, o_row, inside);
    }
    if (p.lse != nullptr && inside && threadIdx.x % 4 == 0) {
      float* const lse = p.lse + tile.batch * p.lse_stride.batch + tile.head * p.lse_stride.head +
                         row * p.lse_stride.row;
      *lse = empty ? -kInfinity : fmaf(rows.maximum[slot], p.scale_log2, ptx::log2(sum)) * kLn2;
    }
  }
}

}  // namespace volley::cuda
