// SPDX-License-Identifier: BSD-3-Clause
//
// A tile, and what its producer and consumers must know of it: which queries, which key blocks,
// which sequence.
#pragma once

#include "cuda/common/mask.cuh"

namespace volley::cuda {

// The record of a tile, handed from the producer to the consumers through shared memory. Only the
// general kernel reads the second half; for the others it is the same for all tiles.
struct alignas(16) Tile {
  int first_row;  // of the sequence
  int head;
  int batch;        // of q and o: 0 where they are packed
  int blocks;       // of keys, at least 1; 0 ends the stream
  int first_block;  // the first of them
  int sq;           // used queries of the sequence
  int sk;           // used keys
  int q_base;       // row of q and o that is the sequence's first

  __device__ __forceinline__ bool ends_stream() const { return blocks == 0; }
};

// A tile with what only its loads need.
struct Work {
  Tile tile;
  int k_batch;  // of k and v: 0 where they are packed
  int k_base;   // row of k and v that is the sequence's first
};

// The key blocks of a tile: from the first that its first row sees to the last that its last row
// sees. A tile that sees none has one, in which everything is hidden.
template <FwdConfig C>
__device__ __forceinline__ void set_blocks(const FwdParams& p, Tile& tile) {
  const Band band = band_of<C.mask>(p, tile.sq, tile.sk);
  const int last_row = min(tile.first_row + C.block_m, tile.sq) - 1;
  const int begin = first_key<C.mask>(band, tile.first_row);
  const int end = end_key<C.mask>(band, last_row);
  tile.first_block = end > begin ? begin / C.block_n : 0;
  tile.blocks = end > begin ? (end + C.block_n - 1) / C.block_n - tile.first_block : 1;
}

}  // namespace volley::cuda
