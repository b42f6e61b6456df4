// SPDX-License-Identifier: BSD-3-Clause
//
// The V2 backward: a CTA owns a block of keys, with all query heads that share it, and visits the
// query tiles that see it. S and P are computed again from q, k and LSE; dK and dV stay in
// registers; dQ is added to fp32 sums in memory, in no fixed order. Formulas: docs/contract.md.
#pragma once

#include "cuda/common/softmax.cuh"
#include "cuda/sm80/config.h"
#include "cuda/sm80/extras.cuh"
#include "cuda/sm80/key_block.cuh"
#include "cuda/sm80/output.cuh"
#include "cuda/sm80/products.cuh"
#include "cuda/sm80/query_sums.cuh"

namespace volley::cuda::v2 {

template <Config C>
class Backward {
 public:
  __device__ __forceinline__ Backward(const BackwardParams& p, const KeyWork& work)
      : p_(p),
        work_(work),
        k_{shared()},
        v_{shared() + C.block_n * C.d},
        weights_{shared() + 2 * (C.block_n + C.buffers * C.block_m) * C.d} {
    if constexpr (C.extras) {
      if (p.extras.dropout_seed != nullptr) subkey_ = dropout_subkey(p.extras);
    }
  }

  // Threads: the CTA.
  __device__ __forceinline__ void run() {
    load_keys(p_.k, k_, p_.d);
    load_keys(p_.v, v_, p_.dv);
    load_tile(0);
    if constexpr (C.buffers == 2) load_tile(1);
    ptx::wait_copies<C.buffers - 1>();
    ptx::sync_cta();  // K, V and the first tile are there
    for (int i = 0; i < tiles(); ++i) step(i);
    ptx::sync_cta();  // K and V become the stage of what is written
    write(p_.dk, k_, dk_, p_.scale, p_.k_columns);
    write(p_.dv_out, v_, dv_, p_.keep_scale, p_.v_columns);
  }

 private:
  static constexpr int kThreads = threads(C);
  // The warp's share of S and dP, of dK and dV, of dQ.
  static constexpr Piece kOfScores = score_piece(C), kOfKeys = key_piece(C),
                         kOfQueries = query_piece(C);
  static constexpr int kGroups = kOfScores.rows / 16;   // of rows of S
  static constexpr int kScores = kOfScores.cols / 2;    // registers of a group
  static constexpr int kKeyGroups = kOfKeys.rows / 16;  // of dK
  static constexpr int kKeyColumns = kOfKeys.cols / 2;

  __device__ __forceinline__ static Bits16* shared() {
    return reinterpret_cast<Bits16*>(ptx::dynamic_shared());
  }
  // Of the warp's piece of S.
  __device__ __forceinline__ static int score_row() {
    return own_warp() % C.score_warps * kOfScores.rows;
  }
  __device__ __forceinline__ static int score_key() {
    return own_warp() / C.score_warps * kOfScores.cols;
  }
  // Of its other pieces.
  template <Piece kPiece>
  __device__ __forceinline__ static int first_row_of() {
    return own_warp() / kPiece.across * kPiece.rows;
  }
  template <Piece kPiece>
  __device__ __forceinline__ static int first_col_of() {
    return own_warp() % kPiece.across * kPiece.cols;
  }

  // The tiles that see the block are one stream, head after head: how many, and of number i the
  // head, the tile of its rows, and where it is kept.
  __device__ __forceinline__ int tiles() const {
    return (work_.end_tile - work_.first_tile) * p_.group;
  }
  __device__ __forceinline__ int head_of(int i) const {
    return work_.key_head * p_.group + i / (work_.end_tile - work_.first_tile);
  }
  __device__ __forceinline__ int tile_of(int i) const {
    return work_.first_tile + i % (work_.end_tile - work_.first_tile);
  }
  __device__ __forceinline__ static int buffer_of(int i) { return C.buffers == 2 ? i & 1 : 0; }

  __device__ __forceinline__ static Tile<C.block_m, C.d> q(int buffer) {
    return {shared() + (2 * C.block_n + buffer * C.block_m) * C.d};
  }
  __device__ __forceinline__ static Tile<C.block_m, C.d> dout(int buffer) {
    return {shared() + (2 * C.block_n + (C.buffers + buffer) * C.block_m) * C.d};
  }
  __device__ __forceinline__ Tile<C.block_m, C.block_n> ds(int buffer) const {
    return {weights_.data + (1 + buffer) * (C.block_m * C.block_n)};
  }
  // LSE of the tile's rows, then delta.
  __device__ __forceinline__ static float* row_numbers(int buffer) {
    constexpr int kOffset = backward_tile_bytes(C) - 8 * C.buffers * C.block_m;
    return reinterpret_cast<float*>(ptx::dynamic_shared() + kOffset) + buffer * 2 * C.block_m;
  }

  __device__ __forceinline__ int q_batch() const {
    return p_.lengths.cu_q != nullptr ? 0 : work_.batch;
  }
  __device__ __forceinline__ int k_batch() const {
    return p_.lengths.cu_k != nullptr ? 0 : work_.batch;
  }

  __device__ __forceinline__ void load_keys(const Operand& from, const Tile<C.block_n, C.d>& to,
                                            int cols) const {
    const Bits16* data = from.data + k_batch() * from.stride.batch +
                         work_.key_head * from.stride.head +
                         i64{work_.rows.k_base + work_.first_key} * from.stride.row;
    to.template load<kThreads>(data, from.stride.row, work_.rows.sk - work_.first_key, cols);
  }
  __device__ __forceinline__ void load_rows(const Operand& from, const Tile<C.block_m, C.d>& to,
                                            int head, int row, int cols) const {
    const Bits16* data = from.data + q_batch() * from.stride.batch + head * from.stride.head +
                         i64{work_.rows.q_base + row} * from.stride.row;
    to.template load<kThreads>(data, from.stride.row, work_.rows.sq - row, cols);
  }

  // Starts to copy what is needed of tile i, if there is one: q, dout, LSE and delta, zeros past
  // the last row.
  __device__ __forceinline__ void load_tile(int i) const {
    if (i < tiles()) copy_tile(head_of(i), tile_of(i) * C.block_m, buffer_of(i));
    ptx::commit_copies();
  }
  __device__ __forceinline__ void copy_tile(int head, int first_row, int buffer) const {
    load_rows(p_.q, q(buffer), head, first_row, p_.d);
    load_rows(p_.dout, dout(buffer), head, first_row, p_.dv);
    const int thread = 32 * own_warp() + own_lane();
    if (thread < 2 * C.block_m) {
      const int row = first_row + thread % C.block_m;
      const i64 place = i64{work_.rows.q_base} + row;
      const bool used = row < work_.rows.sq;
      const float* const lse = p_.lse + q_batch() * p_.lse_stride.batch + head * p_.lse_stride.head;
      const float* const delta = p_.delta + (i64{q_batch()} * p_.heads + head) * p_.query_rows;
      const float* const from = thread < C.block_m ? lse + (used ? place * p_.lse_stride.row : 0)
                                                   : delta + (used ? place : 0);
      ptx::copy_number_async(row_numbers(buffer) + thread, from, used ? 4 : 0);
    }
  }

  // Between two barriers of the CTA warps run apart: some are busy with products, others with P.
  __device__ __forceinline__ void step(int i) {
    const int head = head_of(i), first_row = tile_of(i) * C.block_m, buffer = buffer_of(i);
    float s[kGroups][kScores] = {}, dp[kGroups][kScores] = {};
    multiply_transposed<C.element, 0>(q(buffer), score_row(), k_, score_key(), s, [] {});
    multiply_transposed<C.element, 0>(dout(buffer), score_row(), v_, score_key(), dp, [] {});
    if (C.extras || hides_keys(first_row)) {
      differentiate<true>(head, first_row, buffer, s, dp);
    } else {
      differentiate<false>(head, first_row, buffer, s, dp);
    }
    // P and dS of the keys that these warps share are there.
    ptx::named_sync(1 + own_warp() / C.score_warps, 32 * C.score_warps);
    multiply_columns<C.element, true>(weights_, first_row_of<kOfKeys>(), dout(buffer),
                                      first_col_of<kOfKeys>(), dv_);
    multiply_columns<C.element, true>(ds(buffer), first_row_of<kOfKeys>(), q(buffer),
                                      first_col_of<kOfKeys>(), dk_);
    ptx::wait_copies<0>();
    ptx::sync_cta();  // dS and the next tile are there, and all are done with this one
    load_tile(i + C.buffers);
    if (p_.dq != nullptr) add_dq(i);
    if constexpr (C.buffers == 1) {
      ptx::wait_copies<0>();
      ptx::sync_cta();  // the next tile is there, and all are done with dS
    }
  }

  // Is there a query in the tile that does not see all keys of the block? Rows past the last one do
  // no harm: their q, dO, LSE and delta are 0, and so are their part of dV and their dS.
  __device__ __forceinline__ bool hides_keys(int first_row) const {
    const int last_row = first_row + C.block_m - 1;
    return first_key<MaskKind::kGeneral>(work_.band, last_row) > work_.first_key ||
           end_key<MaskKind::kGeneral>(work_.band, first_row) < work_.first_key + C.block_n;
  }

  // From S and dP to P and dS, in shared memory.
  template <bool kHides>
  __device__ __forceinline__ void differentiate(int head, int first_row, int buffer,
                                                float (&s)[kGroups][kScores],
                                                float (&dp)[kGroups][kScores]) const {
    const int lane = own_lane();
    const int in_block = score_key() + lane % 4 * 2;
    const auto weights = Fragments<C.block_n>::pairs(weights_, score_row(), score_key());
    const auto gradients = Fragments<C.block_n>::pairs(ds(buffer), score_row(), score_key());
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int in_tile = score_row() + 16 * g + lane / 4;
      const Place at{work_.batch,
                     head,
                     work_.rows.sq,
                     work_.rows.sk,
                     first_row + in_tile,
                     work_.first_key + in_block,
                     p_.lengths.relative != 0};
      differentiate_group<kHides>(at, row_numbers(buffer) + in_tile, s[g], dp[g]);
#pragma unroll
      for (int i = 0; i < kScores; i += 2) {
        const int row = 16 * g + 8 * Accumulator::slot(i), col = i / 4 * 8;
        weights.store_pair(row, col, ptx::pack<C.element>(s[g][i], s[g][i + 1]));
        gradients.store_pair(row, col, ptx::pack<C.element>(dp[g][i], dp[g][i + 1]));
      }
    }
  }

  // s becomes P, as dV takes it, dp becomes dS. `numbers`: LSE of the first row, and C.block_m
  // further on its delta.
  template <bool kHides>
  __device__ __forceinline__ void differentiate_group(const Place& at, const float* numbers,
                                                      float (&s)[kScores],
                                                      float (&dp)[kScores]) const {
    float slope[C.extras ? kScores : 1];
    if constexpr (C.extras) {
      cap_scores(p_.extras, s);
#pragma unroll
      for (int i = 0; i < kScores; ++i) slope[i] = p_.extras.capped != 0 ? 1.f - s[i] * s[i] : 1.f;
      finish_scores(p_.extras, at, s);
    }
    if constexpr (kHides) hide_keys(at, s);
    float lse_log2[2], delta[2];
#pragma unroll
    for (int slot = 0; slot < 2; ++slot) {
      const float lse = numbers[8 * slot];
      lse_log2[slot] = lse == -kInfinity ? 0.f : lse * kLog2e;
      delta[slot] = numbers[C.block_m + 8 * slot];
    }
    const float scale_log2 = p_.scale_log2;
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      // What is hidden has no weight, whatever else the row holds.
      const bool hides = kHides && s[i] == -kInfinity;
      s[i] = hides ? 0.f : ptx::exp2(fmaf(s[i], scale_log2, -lse_log2[Accumulator::slot(i)]));
    }
    float kept[kScores];
#pragma unroll
    for (int i = 0; i < kScores; ++i) kept[i] = s[i];
    if constexpr (C.extras) {
      if (p_.extras.dropout_seed != nullptr) {
        drop(p_.extras, subkey_, at, kept);
#pragma unroll
        for (int i = 0; i < kScores; ++i) dp[i] *= kept[i] == 0.f ? 0.f : p_.keep_scale;
      }
    }
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const float gradient = s[i] * (dp[i] - delta[Accumulator::slot(i)]);
      // What has no weight has no gradient either.
      dp[i] = kHides && s[i] == 0.f ? 0.f : gradient;
      if constexpr (C.extras) dp[i] *= slope[i];
      s[i] = kept[i];
    }
  }

  __device__ __forceinline__ void hide_keys(const Place& at, float (&s)[kScores]) const {
    int first[2], after[2];
#pragma unroll
    for (int slot = 0; slot < 2; ++slot) {
      const int row = at.row + 8 * slot;
      first[slot] = first_key<MaskKind::kGeneral>(work_.band, row) - at.key;
      after[slot] = row < at.sq ? end_key<MaskKind::kGeneral>(work_.band, row) - at.key : 0;
    }
    hide<MaskKind::kGeneral>(s, first, after);
  }

  // To the sums of the tile, in the order of query_sums.cuh.
  __device__ __forceinline__ void add_dq(int i) const {
    constexpr int kQueryGroups = kOfQueries.rows / 16, kCount = kOfQueries.cols / 2;
    float dq[kQueryGroups][kCount] = {};
    multiply_columns<C.element, false>(ds(buffer_of(i)), first_row_of<kOfQueries>(), k_,
                                       first_col_of<kOfQueries>(), dq);
    constexpr int kSums = kQueryGroups * kCount;  // of a thread
    float* const sums = p_.dq +
                        sum_tile(p_, work_.rows, work_.batch, head_of(i), tile_of(i), C.block_m) *
                            (C.block_m * C.d) +
                        own_warp() * (32 * kSums) + own_lane();
#pragma unroll
    for (int g = 0; g < kQueryGroups; ++g) {
#pragma unroll
      for (int r = 0; r < kCount; ++r) ptx::add_atomically(sums + 32 * (kCount * g + r), dq[g][r]);
    }
  }

  __device__ __forceinline__ void write(const Output& o, const Tile<C.block_n, C.d>& stage,
                                        const float (&values)[kKeyGroups][kKeyColumns], float scale,
                                        int columns) const {
    const float factor[2] = {scale, scale};
    const int first_col = first_col_of<kOfKeys>();
#pragma unroll
    for (int g = 0; g < kKeyGroups; ++g) {
      const int in_block = first_row_of<kOfKeys>() + 16 * g, key = work_.first_key + in_block;
      write_rows<C.element>(o, Stage<C.block_n, C.d>{stage, in_block, first_col}, values[g], factor,
                            row_of(o, k_batch(), i64{work_.rows.k_base} + key, work_.key_head),
                            first_col, min(work_.rows.sk - key, 16), columns, p_.accumulate != 0);
    }
  }

  const BackwardParams& p_;
  const KeyWork& work_;
  Tile<C.block_n, C.d> k_;
  Tile<C.block_n, C.d> v_;
  Tile<C.block_m, C.block_n> weights_;
  core::PhiloxKey subkey_{};
  float dk_[kKeyGroups][kKeyColumns] = {};
  float dv_[kKeyGroups][kKeyColumns] = {};
};

// The kernel. Blocks of keys are dealt out to the CTAs in turn. Threads: threads(C), shared memory:
// backward_shared_bytes(C).
template <Config C>
__device__ __forceinline__ void backward(const BackwardParams& p) {
  static_assert(backward_tile_bytes(C) + sizeof(KeyWork) <= backward_shared_bytes(C));
  KeyWork& work = *reinterpret_cast<KeyWork*>(ptx::dynamic_shared() + backward_tile_bytes(C));
  int number = static_cast<int>(blockIdx.x);
  while (number < p.blocks) {
    ptx::sync_cta();  // nobody reads the last block's
    if (threadIdx.x == 0) work = find_key_work<C>(p, number);
    ptx::sync_cta();
    if (work.first_key < work.rows.sk) Backward<C>(p, work).run();
    number = work.number + static_cast<int>(gridDim.x);
  }
  if (p.accumulate == 0) {
    clear_unused_keys(p, i64{blockIdx.x} * C.warps + threadIdx.x / 32, i64{gridDim.x} * C.warps);
  }
}

}  // namespace volley::cuda::v2
