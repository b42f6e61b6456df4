// SPDX-License-Identifier: BSD-3-Clause
//
// The end of a tile: O / sum and the LSE, straight from registers to global memory. Rows past the
// sequence's last are skipped, which is all the clipping there is. A row that saw no key gets
// O = 0, LSE = -inf.
#pragma once

#include "cuda/common/row_end.cuh"
#include "cuda/common/softmax.cuh"
#include "cuda/common/tile.cuh"

namespace volley::cuda {

// What is left to do of a thread's two rows once P V is complete: O times `factor`, to `o`.
struct RowEnds {
  char* o;   // the first row's; the second is eight further
  int rows;  // of the sequence, from the first on; may be 0 or less
  float factor[2];
  bool spoilt;  // a maximum taken on trust was not good enough
};

__device__ __forceinline__ int o_size(const FwdParams& p, MaskKind mask) {
  return mask == MaskKind::kGeneral && p.o_is_f32 != 0 ? 4 : 2;
}

// Ends the rows of one warpgroup, the first of them `first_row` of the sequence: sums over the
// quad, writes the LSE. Threads: a warpgroup.
template <FwdConfig C>
__device__ __forceinline__ RowEnds end_rows(const FwdParams& p, const Tile& tile, int first_row,
                                            const RowState& rows) {
  // Above any sum of 2^28 keys that do not outweigh the reference. It is far from overflow: where a
  // P is much larger than 1, its rounding to 16 bits shows more than that of an exact softmax does.
  constexpr float kSumLimit = 0x1p40f;
  const Accumulator at{static_cast<int>(threadIdx.x % kWarpgroup)};
  const int row = first_row + at.first_row();
  RowEnds ends;
  ends.o = static_cast<char*>(p.o) +
           o_size(p, C.mask) * (tile.batch * p.o_stride.batch + tile.head * p.o_stride.head +
                                (tile.q_base + row) * p.o_stride.row);
  ends.rows = tile.sq - row;
  ends.spoilt = false;
  float* const lse = p.lse + tile.batch * p.lse_stride.batch + tile.head * p.lse_stride.head +
                     (tile.q_base + row) * p.lse_stride.row;
#pragma unroll
  for (int slot = 0; slot < 2; ++slot) {
    const float sum = quad_sum(rows.sum[slot]);
    const RowEnd end = end_row(p, tile.head, sum, rows.maximum[slot]);
    if (p.lse != nullptr && 8 * slot < ends.rows && threadIdx.x % 4 == 0) {
      lse[8 * slot * p.lse_stride.row] = end.lse;
    }
    ends.factor[slot] = end.factor;
    if constexpr (C.maximum == Maximum::kOptimistic) {
      // Scores of -infinity before finite ones look like no keys at all.
      const bool sees = end_key<C.mask>(band_of<C.mask>(p, tile.sq, tile.sk), row + 8 * slot) > 0;
      ends.spoilt |= !(sum < kSumLimit) || (sees && rows.maximum[slot] == -kInfinity);
    }
  }
  return ends;
}

// One row's values of two neighbouring groups of 8 columns, normalised, in 16 bits. Lanes of a
// pair swap halves, so that each stores 8 bytes and a quad 32 in a row. Threads: a whole warp.
template <FwdConfig C>
__device__ __forceinline__ void store_pair(const float (&o)[C.dv / 2], int group, int slot,
                                           float factor, Bits16* row, int columns, u32& mark) {
  u32 own[2];
#pragma unroll
  for (int g = 0; g < 2; ++g) {
    const int i = 4 * (group + g) + 2 * slot;
    own[g] = ptx::pack<C.element>(o[i] * factor, o[i + 1] * factor);
    if constexpr (C.maximum == Maximum::kOptimistic) ptx::mark_not_finite<C.element>(mark, own[g]);
  }
  const bool odd = threadIdx.x % 2 != 0;
  const u32 kept = odd ? own[1] : own[0];
  const u32 received = ptx::shuffle_xor(odd ? own[0] : own[1], 1);
  const int col = 8 * (group + (odd ? 1 : 0)) + (threadIdx.x % 4 / 2) * 4;
  if (col < columns) {
    *reinterpret_cast<uint2*>(row + col) =
        odd ? make_uint2(received, kept) : make_uint2(kept, received);
  }
}

// One row's values in fp32: 8 bytes a lane, 32 a quad. Threads: any.
template <FwdConfig C>
__device__ __forceinline__ void store_f32(const float (&o)[C.dv / 2], int slot, float factor,
                                          float* row, int columns) {
#pragma unroll
  for (int group = 0; group < C.dv / 8; ++group) {
    const int i = 4 * group + 2 * slot;
    const int col = 8 * group + static_cast<int>(threadIdx.x % 4) * 2;
    if (col < columns) {
      *reinterpret_cast<float2*>(row + col) = make_float2(o[i] * factor, o[i + 1] * factor);
    }
  }
}

// Writes O. Returns whether the thread has seen a result that is not finite.
// Threads: a warpgroup. Registers: o is read, not in flight.
template <FwdConfig C>
__device__ __forceinline__ bool store_o(const FwdParams& p, const RowEnds& ends,
                                        const float (&o)[C.dv / 2]) {
  u32 mark = 0;
#pragma unroll
  for (int slot = 0; slot < 2; ++slot) {
    char* const row = ends.o + o_size(p, C.mask) * 8 * slot * p.o_stride.row;
    const int columns = 8 * slot < ends.rows ? p.dv : 0;
    if (C.mask == MaskKind::kGeneral && p.o_is_f32 != 0) {
      store_f32<C>(o, slot, ends.factor[slot], reinterpret_cast<float*>(row), columns);
      continue;
    }
#pragma unroll
    for (int group = 0; group < C.dv / 8; group += 2) {
      store_pair<C>(o, group, slot, ends.factor[slot], reinterpret_cast<Bits16*>(row), columns,
                    mark);
    }
  }
  return (mark & 0x7fff7fff) != 0;
}

}  // namespace volley::cuda
