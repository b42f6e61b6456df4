// SPDX-License-Identifier: BSD-3-Clause
//
// The schedule: which query tiles a CTA computes, in which order, and how many key blocks each
// needs. Only the producer's thread walks it; consumers get each tile's record through shared
// memory, so divisions stay off their path and another schedule would change nothing for them.
//
// Full attention: an item is a tile; neighbours share a head, so its K and V are read together.
// Causal: tiles differ in length, so an item is the i-th longest tile of a head and then the i-th
// shortest: items are equal and a static schedule is balanced. Items of `section` heads are
// interleaved, which keeps the K and V in use within L2 and lets neighbours run in step.
#pragma once

#include "cuda/common/mask.cuh"

namespace volley::cuda {

// A tile of block_m queries of one head. 16 bytes, read with one load.
struct alignas(16) Tile {
  int first_row;
  int head;
  int batch;
  int blocks;  // of keys, at least 1; 0 ends the stream
};

template <FwdConfig C>
class TileWalk {
 public:
  __device__ __forceinline__ explicit TileWalk(const FwdParams& p)
      : p_(p), item_(static_cast<int>(blockIdx.x)) {}

  // The next tile of this CTA; blocks is 0 after the last. Threads: one.
  __device__ __forceinline__ Tile next() {
    if (item_ >= p_.items) return {0, 0, 0, 0};
    int batch_head, q_tile;
    if (C.mask == MaskKind::kFull) {
      batch_head = item_ / p_.q_tiles;
      q_tile = item_ - batch_head * p_.q_tiles;
      item_ += static_cast<int>(gridDim.x);
    } else {
      causal(batch_head, q_tile);
    }
    return make_tile(batch_head, q_tile);
  }

 private:
  __device__ __forceinline__ void causal(int& batch_head, int& q_tile) {
    const int ranks = p_.pair_tiles != 0 ? (p_.q_tiles + 1) / 2 : p_.q_tiles;  // items of a head
    const int section = item_ / (ranks * p_.section);
    const int heads = min(p_.section, p_.batch_heads - section * p_.section);
    const int within = item_ - section * ranks * p_.section;
    const int rank = within / heads;
    batch_head = section * p_.section + within - rank * heads;
    q_tile = second_ ? rank : p_.q_tiles - 1 - rank;
    const bool has_second = p_.pair_tiles != 0 && rank != p_.q_tiles - 1 - rank;
    if (has_second && !second_) {
      second_ = true;
    } else {
      second_ = false;
      item_ += static_cast<int>(gridDim.x);
    }
  }

  __device__ __forceinline__ Tile make_tile(int batch_head, int q_tile) const {
    Tile tile;
    tile.batch = batch_head / p_.heads;
    tile.head = batch_head - tile.batch * p_.heads;
    tile.first_row = q_tile * C.block_m;
    const int last_row = min(tile.first_row + C.block_m, p_.sq) - 1;
    const int keys = max(visible_keys<C.mask>(p_, last_row), 1);  // no key: one block, all hidden
    tile.blocks = (keys + C.block_n - 1) / C.block_n;
    return tile;
  }

  const FwdParams& p_;
  int item_;
  bool second_ = false;
};

}  // namespace volley::cuda
