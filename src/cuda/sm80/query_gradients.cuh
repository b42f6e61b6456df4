// SPDX-License-Identifier: BSD-3-Clause
//
// dq, and dbias, in a fixed order: a CTA owns a tile of query rows of one head, walks through the
// keys that it sees as the forward does, and computes S and dP once more. dS goes from registers
// straight into dQ += dS K, which stays in registers and is written once. Formulas:
// docs/contract.md.
#pragma once

#include "cuda/common/softmax.cuh"
#include "cuda/sm80/bias_gradient.cuh"
#include "cuda/sm80/extras.cuh"
#include "cuda/sm80/output.cuh"
#include "cuda/sm80/products.cuh"
#include "cuda/sm80/query_tile.cuh"

namespace volley::cuda::v2 {

template <Config C>
class QueryGradients {
 public:
  __device__ __forceinline__ QueryGradients(const QueryGradientParams& p, const Work& work)
      : p_(p),
        work_(work),
        q_{shared()},
        dout_{shared() + C.block_m * C.d},
        k_{shared() + 2 * C.block_m * C.d},
        v_{shared() + (2 * C.block_m + C.block_n) * C.d} {
    if (p.extras.dropout_seed != nullptr) subkey_ = dropout_subkey(p.extras);
  }

  // Threads: the CTA.
  __device__ __forceinline__ void run() {
    if (work_.end_block > work_.first_block) {
      read_rows();
      load_rows(p_.q, q_, p_.d);
      load_rows(p_.dout, dout_, p_.dv);
      load_v(work_.end_block - 1);
      for (int block = work_.end_block - 1; block >= work_.first_block; --block) step(block);
    }
    write();
  }

 private:
  static constexpr int kThreads = threads(C);
  static constexpr int kScores = C.block_n / 2;  // registers of S

  __device__ __forceinline__ static Bits16* shared() {
    return reinterpret_cast<Bits16*>(ptx::dynamic_shared());
  }
  // The warp's first row in the tile; the thread's first row in the sequence.
  __device__ __forceinline__ static int warp_row() { return own_warp() * 16; }
  __device__ __forceinline__ int own_row() const {
    return work_.first_row + warp_row() + static_cast<int>(threadIdx.x) % 32 / 4;
  }
  __device__ __forceinline__ int q_batch() const {
    return p_.lengths.cu_q != nullptr ? 0 : work_.batch;
  }

  // What is known of the thread's two rows. Rows past the sequence have q = dO = 0, so dS = 0.
  __device__ __forceinline__ void read_rows() {
#pragma unroll
    for (int slot = 0; slot < 2; ++slot) {
      const int row = own_row() + 8 * slot;
      if (row >= work_.rows.sq) continue;
      const i64 place = i64{work_.rows.q_base} + row;
      const float lse = p_.lse[q_batch() * p_.lse_stride.batch + work_.head * p_.lse_stride.head +
                               place * p_.lse_stride.row];
      lse_log2_[slot] = lse == -kInfinity ? 0.f : lse * kLog2e;
      delta_[slot] = p_.delta[(i64{q_batch()} * p_.heads + work_.head) * p_.query_rows + place];
    }
  }

  __device__ __forceinline__ void load_rows(const Operand& from, const Tile<C.block_m, C.d>& to,
                                            int cols) const {
    const Bits16* data = from.data + q_batch() * from.stride.batch + work_.head * from.stride.head +
                         i64{work_.rows.q_base + work_.first_row} * from.stride.row;
    to.template load<kThreads>(data, from.stride.row, work_.rows.sq - work_.first_row, cols);
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

  // K and V take turns: K arrives while dP is computed, the next V while S and dQ are.
  __device__ __forceinline__ void step(int block) {
    arrived();  // V, and at first Q and dO
    float dp[1][kScores] = {};
    multiply_transposed<C.element, 1>(dout_, warp_row(), v_, 0, dp, [&] { load_k(block); });
    arrived();  // K
    if (block > work_.first_block) load_v(block - 1);
    float s[1][kScores] = {};
    multiply_transposed<C.element, 1>(q_, warp_row(), k_, 0, s, [] {});
    u32 ds[1][kScores / 2];
    differentiate(block, s[0], dp[0], ds[0]);
    multiply<C.element, 1>(ds, k_, dq_);
  }

  // From S and dP to dS, which goes to dbias, and times the slope of the softcap to dQ, in 16 bits.
  __device__ __forceinline__ void differentiate(int block, float (&s)[kScores],
                                                float (&dp)[kScores],
                                                u32 (&ds)[kScores / 2]) const {
    const Place at{work_.batch,
                   work_.head,
                   work_.rows.sq,
                   work_.rows.sk,
                   own_row(),
                   block * C.block_n + static_cast<int>(threadIdx.x) % 4 * 2,
                   p_.lengths.relative != 0};
    cap_scores(p_.extras, s);
    float slope[kScores];
#pragma unroll
    for (int i = 0; i < kScores; ++i) slope[i] = p_.extras.capped != 0 ? 1.f - s[i] * s[i] : 1.f;
    finish_scores(p_.extras, at, s);
    hide_keys<C>(work_, at, block, s);
    if (p_.extras.dropout_seed != nullptr) drop(p_.extras, subkey_, at, dp);
      // What is hidden has no gradient, whatever else the row holds.
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const int slot = Accumulator::slot(i);
      const float change = dp[i] * p_.keep_scale - delta_[slot];
      s[i] = s[i] == -kInfinity ? 0.f : ptx::exp2(s[i] - lse_log2_[slot]) * change;
    }
    bias_gradient(p_, at, s);
#pragma unroll
    for (int i = 0; i < kScores; ++i) s[i] *= slope[i];
    convert_p<C.element>(s, ds);
  }

  __device__ __forceinline__ void write() const {
    const float factor[2] = {p_.scale, p_.scale};
    const int first = work_.first_row + warp_row();
    write_rows<C.element>(p_.dq, Stage<C.block_m, C.d>{q_, warp_row()}, dq_[0], factor,
                          row_of(p_.dq, q_batch(), i64{work_.rows.q_base} + first, work_.head), 0,
                          min(work_.rows.sq - first, 16), p_.columns, p_.accumulate != 0);
  }

  const QueryGradientParams& p_;
  const Work& work_;
  Tile<C.block_m, C.d> q_;
  Tile<C.block_m, C.d> dout_;
  Tile<C.block_n, C.d> k_;
  Tile<C.block_n, C.d> v_;
  core::PhiloxKey subkey_{};
  float lse_log2_[2] = {0.f, 0.f};
  float delta_[2] = {0.f, 0.f};
  float dq_[1][C.d / 2] = {};
};

// dQ = 0 in rows `begin` to `end` - 1 of one batch, all heads. Threads: a whole warp.
__device__ __forceinline__ void clear_dq(const QueryGradientParams& p, int batch, i64 begin,
                                         i64 end) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (i64 row = begin; row < end; ++row) {
    for (int head = 0; head < p.heads; ++head) {
      char* const dq = row_of(p.dq, batch, row, head);
      for (int col = lane; col < p.columns; col += 32) put_number(p.dq, dq, col, 0.f, false);
    }
  }
}

// The tile that a CTA computes in its turn `turn`: it takes the tiles of a run one after the other.
__device__ __forceinline__ int number_of(const QueryGradientParams& p, int turn) {
  const int run = static_cast<int>(blockIdx.x) + turn / p.run * static_cast<int>(gridDim.x);
  return run / p.run_step * (p.run_step * p.run) + run % p.run_step + turn % p.run * p.run_step;
}

// The kernel. Runs of tiles are dealt out to the CTAs in turn. Threads: threads(C), shared memory:
// query_shared_bytes(C).
template <Config C>
__device__ __forceinline__ void query_gradients(const QueryGradientParams& p) {
  static_assert(query_tile_bytes(C) + sizeof(Work) <= query_shared_bytes(C));
  Work& work = *reinterpret_cast<Work*>(ptx::dynamic_shared() + query_tile_bytes(C));
  for (int turn = 0, number; (number = number_of(p, turn)) < p.tiles; ++turn) {
    ptx::sync_cta();  // nobody reads the last tile's
    if (threadIdx.x == 0) work = find_work<C>(p, number);
    ptx::sync_cta();
    if (work.first_row < work.rows.sq) QueryGradients<C>(p, work).run();
  }
  if (p.accumulate == 0) {
    for_unused_rows(p, i64{blockIdx.x} * C.warps + threadIdx.x / 32, i64{gridDim.x} * C.warps,
                    [&](int batch, i64 begin, i64 end) { clear_dq(p, batch, begin, end); });
  }
}

}  // namespace volley::cuda::v2
