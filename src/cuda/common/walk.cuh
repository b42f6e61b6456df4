// SPDX-License-Identifier: BSD-3-Clause
//
// The schedule: which tiles a CTA computes, in which order. Only the warps that load walk it;
// consumers get each tile's record through shared memory, so divisions stay off their path and
// another schedule would change nothing for them.
//
// Full attention: tile after tile, so that neighbours share a head and read its K and V together.
// Causal: see schedule.h. General: sequence by sequence, as their lengths are found.
#pragma once

#include "cuda/common/sequence.cuh"
#include "cuda/common/tile.cuh"
#include "cuda/ptx/core.cuh"

namespace volley::cuda {

// Sequences of one length: tiles are numbered.
template <FwdConfig C>
class EqualWalk {
 public:
  __device__ __forceinline__ explicit EqualWalk(const FwdParams& p) : p_(p) {}

  // The next tile of this CTA, or the end of the stream. Threads: any.
  __device__ __forceinline__ Work next() {
    const int grid = static_cast<int>(gridDim.x), cta = static_cast<int>(blockIdx.x);
    const bool back = C.mask == MaskKind::kCausal && round_ % 2 != 0;
    const int number = p_.first_tile + round_ * grid + (back ? grid - 1 - cta : cta);
    if (number >= p_.end_tile) return Work{};
    ++round_;
    int batch_head, q_tile;
    if constexpr (C.mask == MaskKind::kCausal) {
      const int section = number / (p_.q_tiles * p_.section);
      const int heads = min(p_.section, p_.batch_heads - section * p_.section);
      const int within = number - section * p_.q_tiles * p_.section;
      const int rank = within / heads;
      batch_head = section * p_.section + within - rank * heads;
      q_tile = p_.q_tiles - 1 - rank;
    } else {
      batch_head = number / p_.q_tiles;
      q_tile = number - batch_head * p_.q_tiles;
    }
    Tile tile{};
    tile.batch = batch_head / p_.heads;
    tile.head = batch_head - tile.batch * p_.heads;
    tile.first_row = q_tile * C.block_m;
    tile.sq = p_.sq;
    tile.sk = p_.sk;
    set_blocks<C>(p_, tile);
    return {tile, tile.batch, 0};
  }

 private:
  const FwdParams& p_;
  int round_ = 0;
};

// Sequences of their own lengths, which are read 32 at a time, one by each lane. The tiles of a
// sequence are numbered head by head, from the last queries to the first.
template <FwdConfig C>
class SequenceWalk {
 public:
  __device__ __forceinline__ explicit SequenceWalk(const FwdParams& p)
      : p_(p), number_(static_cast<int>(blockIdx.x)) {
    read_group();
  }

  // The next tile of this CTA, or the end of the stream. Threads: a whole warp.
  __device__ __forceinline__ Work next() {
    while (number_ - before_ >= count_) {
      before_ += count_;
      group_ += 32;
      if (group_ >= p_.lengths.batch) return Work{};
      read_group();
    }
    const int within_group = number_ - before_;
    const int lane = ptx::last_lane(start_ <= within_group);
    const Sequence s = {ptx::from_lane(own_.q_base, lane), 0, ptx::from_lane(own_.sq, lane),
                        ptx::from_lane(own_.k_base, lane), ptx::from_lane(own_.sk, lane)};
    const int within = within_group - ptx::from_lane(start_, lane);
    const int q_tiles = tiles_of(s.sq);
    Tile tile{};
    tile.head = within / q_tiles;
    tile.first_row = (q_tiles - 1 - (within - tile.head * q_tiles)) * C.block_m;
    tile.batch = p_.lengths.cu_q != nullptr ? 0 : group_ + lane;
    tile.sq = s.sq;
    tile.sk = s.sk;
    tile.q_base = s.q_base;
    set_blocks<C>(p_, tile);
    number_ += static_cast<int>(gridDim.x);
    return {tile, p_.lengths.cu_k != nullptr ? 0 : group_ + lane, s.k_base};
  }

 private:
  __device__ __forceinline__ static int tiles_of(int sq) {
    return (sq + C.block_m - 1) / C.block_m;
  }

  __device__ __forceinline__ void read_group() {
    const int lane = static_cast<int>(threadIdx.x % 32);
    own_ = Sequence{};
    if (group_ + lane < p_.lengths.batch) own_ = read_sequence(p_, group_ + lane);
    const int own_tiles = tiles_of(own_.sq) * p_.heads;
    const int end = ptx::inclusive_sum(own_tiles);
    start_ = end - own_tiles;
    count_ = ptx::from_lane(end, 31);
  }

  const FwdParams& p_;
  int number_;      // of the next tile
  int group_ = 0;   // first of the 32 sequences
  int before_ = 0;  // tiles of earlier groups
  int count_;       // tiles of the group
  Sequence own_;    // the lane's sequence
  int start_;       // tiles of the group before the lane's
};

template <FwdConfig C, bool kGeneral = C.mask == MaskKind::kGeneral>
struct WalkOf {
  using Type = EqualWalk<C>;
};
template <FwdConfig C>
struct WalkOf<C, true> {
  using Type = SequenceWalk<C>;
};
template <FwdConfig C>
using Walk = typename WalkOf<C>::Type;

}  // namespace volley::cuda
