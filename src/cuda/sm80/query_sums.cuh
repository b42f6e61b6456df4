// SPDX-License-Identifier: BSD-3-Clause
//
// The fp32 sums that become dq: tile after tile of query rows, each in the order of the registers
// that are added to it, [warp][register][lane], so that a warp adds to 32 neighbours at a time.
#pragma once

#include "cuda/common/sequence.cuh"
#include "cuda/sm80/params.h"

namespace volley::cuda::v2 {

// The number of the tile of a head that is tile `tile` of sequence `batch`. Of packed sequences
// each may have one tile more than its share of all rows, so that no two have one in common.
// Params has heads, sum_tiles and lengths.
template <class Params>
__device__ __forceinline__ i64 sum_tile(const Params& p, const Sequence& rows, int batch, int head,
                                        int tile, int block_m) {
  const bool packed = p.lengths.cu_q != nullptr;
  const int first = packed ? rows.q_base / block_m + batch : 0;
  return (i64{packed ? 0 : batch} * p.heads + head) * p.sum_tiles + first + tile;
}

// Where the sum of row `row`, a column that is a multiple of 8, lies in its tile. Its neighbours of
// columns 2, 4 and 6 further on follow; 32 behind these are those of the odd columns.
__device__ __forceinline__ int place_of_sum(const Piece& piece, int row, int col) {
  const int warp = row / piece.rows * piece.across + col / piece.cols;
  const int group = row % piece.rows / 16, slot = row / 8 % 2;
  const int reg = group * (piece.cols / 2) + col % piece.cols / 2 + 2 * slot;
  return (warp * (piece.rows * piece.cols / 32) + reg) * 32 + row % 8 * 4;
}

}  // namespace volley::cuda::v2
