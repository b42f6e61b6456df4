// SPDX-License-Identifier: BSD-3-Clause
//
// The V2 forward: FlashAttention-2's loop. All warps of a CTA are alike; each owns some rows of a
// query tile and keeps their S, P and O in registers. K and V take turns: while a block's scores
// are computed its V is on its way, while its P V is computed the next K is.
#pragma once

#include "cuda/common/softmax.cuh"
#include "cuda/sm80/config.h"
#include "cuda/sm80/extras.cuh"
#include "cuda/sm80/output.cuh"
#include "cuda/sm80/products.cuh"
#include "cuda/sm80/query_tile.cuh"

namespace volley::cuda::v2 {

// One query tile on its way through the keys.
template <Config C>
class Forward {
 public:
  __device__ __forceinline__ Forward(const ForwardParams& p, const Work& work)
      : p_(p),
        work_(work),
        q_{shared()},
        k_{shared() + C.block_m * C.d},
        v_{shared() + (C.block_m + C.block_n) * C.d} {
    if constexpr (C.extras) {
      if (p.extras.dropout_seed != nullptr) subkey_ = dropout_subkey(p.extras);
    }
  }

  // Threads: the CTA.
  __device__ __forceinline__ void run() {
    if (work_.end_block > work_.first_block) {
      load_q();
      load_k(work_.end_block - 1);
      for (int block = work_.end_block - 1; block >= work_.first_block; --block) step(block);
    }
#pragma unroll
    for (int g = 0; g < kGroups; ++g) end_group(g);
  }

 private:
  static constexpr int kThreads = threads(C);
  static constexpr int kGroups = row_groups(C);
  static constexpr int kScores = C.block_n / 2;  // registers of S, of a group of rows

  __device__ __forceinline__ static Bits16* shared() {
    return reinterpret_cast<Bits16*>(ptx::dynamic_shared());
  }
  // The warp's first row in the tile; the thread's first row of group g in the sequence.
  __device__ __forceinline__ static int warp_row() { return own_warp() * (16 * kGroups); }
  __device__ __forceinline__ int row_of_group(int g) const {
    return work_.first_row + warp_row() + 16 * g + own_lane() / 4;
  }
  __device__ __forceinline__ static int first_col() { return own_lane() % 4 * 2; }

  __device__ __forceinline__ void load_q() const {
    const int batch = p_.lengths.cu_q != nullptr ? 0 : work_.batch;
    const Bits16* from = p_.q.data + batch * p_.q.stride.batch + work_.head * p_.q.stride.head +
                         i64{work_.rows.q_base + work_.first_row} * p_.q.stride.row;
    q_.template load<kThreads>(from, p_.q.stride.row, work_.rows.sq - work_.first_row, p_.d);
  }
  __device__ __forceinline__ void load_k(int block) const {
    load_keys<C>(work_, work_.k, p_.k.stride.row, block, p_.d, k_);
  }
  __device__ __forceinline__ void load_v(int block) const {
    load_keys<C>(work_, work_.v, p_.v.stride.row, block, p_.dv, v_);
  }

  // All copies have landed, and all warps are done with what was read before.
  __device__ __forceinline__ static void arrived() {
    ptx::wait_copies<0>();
    ptx::sync_cta();
  }

  __device__ __forceinline__ void step(int block) {
    arrived();  // K, and at first Q
    float s[kGroups][kScores] = {};
    multiply_transposed<C.element, 1>(q_, warp_row(), k_, 0, s, [&] { load_v(block); });
    arrived();  // V
    if (block > work_.first_block) load_k(block - 1);
    u32 weights[kGroups][kScores / 2];
#pragma unroll
    for (int g = 0; g < kGroups; ++g) soften(g, block, s[g], weights[g]);
    multiply<C.element, kGroups>(weights, v_, o_);
  }

  // From a group's scores to its weights, in 16 bits.
  __device__ __forceinline__ void soften(int g, int block, float (&s)[kScores],
                                         u32 (&weights)[kScores / 2]) {
    const Place at{work_.batch,
                   work_.head,
                   work_.rows.sq,
                   work_.rows.sk,
                   row_of_group(g),
                   block * C.block_n + first_col(),
                   p_.lengths.relative != 0};
    if constexpr (C.extras) {
      cap_scores(p_.extras, s);
      finish_scores(p_.extras, at, s);
    }
    hide_keys<C>(work_, at, block, s);
    // A lazy maximum (as sm90's) would save few instructions here, and round the weight of a key
    // that outweighs all others, which is 1 so.
    constexpr float kGrowth = 0;
    float correction[2];
    if (follow_maxima(s, p_.scale_log2, kGrowth, rows_[g], correction)) {
      rescale(o_[g], correction);
    }
    exponentiate(s, p_.scale_log2, rows_[g]);
    if constexpr (C.extras) {
      if (p_.extras.dropout_seed != nullptr) drop(p_.extras, subkey_, at, s);
    }
    convert_p<C.element>(s, weights);
  }

  __device__ __forceinline__ void end_group(int g) const {
    const int batch = p_.lengths.cu_q != nullptr ? 0 : work_.batch;
    float factor[2];
#pragma unroll
    for (int slot = 0; slot < 2; ++slot) {
      const int row = row_of_group(g) + 8 * slot;
      const RowEnd end =
          end_row(p_, work_.head, quad_sum(rows_[g].sum[slot]), rows_[g].maximum[slot]);
      factor[slot] = end.factor * p_.keep_scale;
      if (row < work_.rows.sq && p_.lse != nullptr && threadIdx.x % 4 == 0) {
        p_.lse[batch * p_.lse_stride.batch + work_.head * p_.lse_stride.head +
               (i64{work_.rows.q_base} + row) * p_.lse_stride.row] = end.lse;
      }
    }
    const int in_tile = warp_row() + 16 * g, first = work_.first_row + in_tile;
    write_rows<C.element>(p_.o, Stage<C.block_m, C.d>{q_, in_tile}, o_[g], factor,
                          row_of(p_.o, batch, i64{work_.rows.q_base} + first, work_.head), 0,
                          min(work_.rows.sq - first, 16), p_.o_columns, false);
  }

  const ForwardParams& p_;
  const Work& work_;
  Tile<C.block_m, C.d> q_;
  Tile<C.block_n, C.d> k_;
  Tile<C.block_n, C.d> v_;
  core::PhiloxKey subkey_{};
  RowState rows_[kGroups];
  float o_[kGroups][C.d / 2] = {};
};

// The kernel. Tiles are dealt out to the CTAs in turn. Threads: threads(C), shared memory:
// shared_bytes(C).
template <Config C>
__device__ __forceinline__ void forward(const ForwardParams& p) {
  static_assert(tile_bytes(C) + sizeof(Work) <= shared_bytes(C));
  Work& work = *reinterpret_cast<Work*>(ptx::dynamic_shared() + tile_bytes(C));
  for (int number = static_cast<int>(blockIdx.x); number < p.tiles;) {
    if (threadIdx.x == 0) work = find_work<C>(p, number);
    ptx::sync_cta();
    if (work.first_row < work.rows.sq) Forward<C>(p, work).run();
    number += static_cast<int>(gridDim.x);
    if (number < p.tiles) ptx::sync_cta();  // nobody reads this tile's work any more
  }
  clear_unused_rows(p, i64{blockIdx.x} * C.warps + threadIdx.x / 32, i64{gridDim.x} * C.warps);
}

}  // namespace volley::cuda::v2
