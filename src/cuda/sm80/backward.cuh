// SPDX-License-Identifier: BSD-3-Clause
//
// The V2 backward: a CTA owns a block of keys, with all query heads that share it, and visits the
// query tiles that see it. S and P are computed again from q, k and LSE; dK and dV stay in
// registers; dQ is added to fp32 sums in memory, in no fixed order. Formulas: docs/contract.md.
#pragma once

#include "cuda/common/softmax.cuh"
#include "cuda/sm80/config.h"
#include "cuda/sm80/extras.cuh"
#include "cuda/sm80/output.cuh"
#include "cuda/sm80/products.cuh"

namespace volley::cuda::v2 {

// A block of keys, and the query tiles that see it. It lies in shared memory.
struct KeyWork {
  int batch, key_head;
  int first_key;
  Sequence rows;
  Band band;
  int first_tile, end_tile;
};

template <Config C>
__device__ __forceinline__ KeyWork find_key_work(const BackwardParams& p, int number) {
  KeyWork work;
  const int key_heads = p.heads / p.group;
  const int batch_head = number / p.key_blocks;
  work.batch = batch_head / key_heads;
  work.key_head = batch_head - work.batch * key_heads;
  work.first_key = (number - batch_head * p.key_blocks) * C.block_n;
  work.rows = read_sequence(p, work.batch);
  const int shift = p.lengths.relative != 0 ? work.rows.sk - work.rows.sq : 0;
  work.band = {p.lengths.low + shift, p.lengths.high + shift, work.rows.sk};
  // Query i sees key j iff j - high < i <= j - low.
  const int last_key = min(work.first_key + C.block_n, work.rows.sk) - 1;
  const int begin = max(0, work.first_key - work.band.high + 1);
  const int end = min(work.rows.sq, last_key - work.band.low + 1);
  const bool seen = end > begin && last_key >= work.first_key;
  work.first_tile = seen ? begin / C.block_m : 0;
  work.end_tile = seen ? (end + C.block_m - 1) / C.block_m : 0;
  return work;
}

template <Config C>
class Backward {
 public:
  __device__ __forceinline__ Backward(const BackwardParams& p, const KeyWork& work)
      : p_(p),
        work_(work),
        k_{shared()},
        v_{shared() + C.block_n * C.d},
        q_{shared() + 2 * C.block_n * C.d},
        dout_{shared() + (2 * C.block_n + C.block_m) * C.d},
        weights_{shared() + 2 * (C.block_n + C.block_m) * C.d},
        ds_{shared() + 2 * (C.block_n + C.block_m) * C.d + C.block_m * C.block_n} {
    if constexpr (C.extras) {
      if (p.extras.dropout_seed != nullptr) subkey_ = dropout_subkey(p.extras);
    }
  }

  // Threads: the CTA.
  __device__ __forceinline__ void run() {
    load_keys(p_.k, k_, p_.d);
    load_keys(p_.v, v_, p_.dv);
    ptx::commit_copies();
    for (int head = work_.key_head * p_.group; head < (work_.key_head + 1) * p_.group; ++head) {
      for (int tile = work_.first_tile; tile < work_.end_tile; ++tile) step(head, tile * C.block_m);
    }
    ptx::wait_copies<0>();
    ptx::sync_cta();  // K and V become the stage of what is written
    write(p_.dk, Stage<C.block_n, C.d>{k_, 16 * key_group()}, dk_, p_.scale, p_.k_columns);
    write(p_.dv_out, Stage<C.block_n, C.d>{v_, 16 * key_group()}, dv_, p_.keep_scale, p_.v_columns);
  }

 private:
  static constexpr int kThreads = threads(C);
  static constexpr int kByRows = parts(C, C.block_m);  // warps that share 16 query rows
  static constexpr int kByKeys = parts(C, C.block_n);  // warps that share 16 keys
  static constexpr int kKeys = C.block_n / kByRows;    // of a warp's S
  static constexpr int kScores = kKeys / 2;            // registers of it

  __device__ __forceinline__ static Bits16* shared() {
    return reinterpret_cast<Bits16*>(ptx::dynamic_shared());
  }
  __device__ __forceinline__ static int warp() {
    return ptx::opaque(static_cast<int>(threadIdx.x)) / 32;
  }
  // The warp's share: 16 query rows and kKeys keys of S; 16 keys and C.d / kByKeys columns of dK.
  __device__ __forceinline__ static int row_group() { return warp() / kByRows; }
  __device__ __forceinline__ static int key_part() { return warp() % kByRows; }
  __device__ __forceinline__ static int key_group() { return warp() / kByKeys; }
  __device__ __forceinline__ static int column_part() { return warp() % kByKeys; }

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

  __device__ __forceinline__ void step(int head, int first_row) {
    ptx::sync_cta();  // all are done with the last tile
    load_rows(p_.q, q_, head, first_row, p_.d);
    load_rows(p_.dout, dout_, head, first_row, p_.dv);
    ptx::commit_copies();
    ptx::wait_copies<0>();
    ptx::sync_cta();
    float s[kScores] = {}, dp[kScores] = {};
    multiply_part<C.element>(q_, 16 * row_group(), k_, kKeys * key_part(), s);
    multiply_part<C.element>(dout_, 16 * row_group(), v_, kKeys * key_part(), dp);
    differentiate(head, first_row, s, dp);
    ptx::sync_cta();  // P and dS are there
    constexpr int kGroups = C.d / kByKeys / 16;
    multiply_columns<C.element, true>(weights_, key_group(), dout_, kGroups * column_part(), dv_);
    multiply_columns<C.element, true>(ds_, key_group(), q_, kGroups * column_part(), dk_);
    if (p_.dq != nullptr) add_dq(head, first_row);
  }

  // From S and dP to P and dS, in shared memory.
  __device__ __forceinline__ void differentiate(int head, int first_row, float (&s)[kScores],
                                                float (&dp)[kScores]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int in_tile = 16 * row_group() + lane / 4, in_block = kKeys * key_part() + lane % 4 * 2;
    const Place at{work_.batch,
                   head,
                   work_.rows.sq,
                   work_.rows.sk,
                   first_row + in_tile,
                   work_.first_key + in_block,
                   p_.lengths.relative != 0};
    float slope[C.extras ? kScores : 1];
    if constexpr (C.extras) {
      cap_scores(p_.extras, s);
#pragma unroll
      for (int i = 0; i < kScores; ++i) slope[i] = p_.extras.capped != 0 ? 1.f - s[i] * s[i] : 1.f;
      finish_scores(p_.extras, at, s);
    }
    float lse_log2[2], delta[2];
    int first[2], after[2];
#pragma unroll
    for (int slot = 0; slot < 2; ++slot) {
      const int row = at.row + 8 * slot;
      const bool used = row < at.sq;
      const i64 place = i64{work_.rows.q_base} + row;
      const float lse = used ? p_.lse[q_batch() * p_.lse_stride.batch + head * p_.lse_stride.head +
                                      place * p_.lse_stride.row]
                             : 0.f;
      delta[slot] =
          used ? p_.delta[(i64{q_batch()} * p_.heads + head) * p_.query_rows + place] : 0.f;
      lse_log2[slot] = lse == -kInfinity ? 0.f : lse * kLog2e;
      first[slot] = first_key<MaskKind::kGeneral>(work_.band, row) - at.key;
      after[slot] = used ? end_key<MaskKind::kGeneral>(work_.band, row) - at.key : 0;
    }
    hide<MaskKind::kGeneral>(s, first, after);
    // P; what is hidden has neither weight nor gradient, whatever else the row holds.
    u32 hidden = 0;  // a bit each
    static_assert(kScores <= 32);
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const bool hides = s[i] == -kInfinity;
      hidden |= hides ? 1u << i : 0u;
      s[i] = hides ? 0.f : ptx::exp2(fmaf(s[i], p_.scale_log2, -lse_log2[Accumulator::slot(i)]));
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
    for (int i = 0; i < kScores; i += 2) {
      const int slot = Accumulator::slot(i);
      float gradient[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const bool hides = (hidden >> (i + j) & 1) != 0;
        gradient[j] = hides ? 0.f : s[i + j] * (dp[i + j] - delta[slot]);
        if constexpr (C.extras) gradient[j] *= slope[i + j];
      }
      const int row = in_tile + 8 * slot, col = in_block + Accumulator::col_offset(i);
      put(weights_, row, col, ptx::pack<C.element>(kept[i], kept[i + 1]));
      put(ds_, row, col, ptx::pack<C.element>(gradient[0], gradient[1]));
    }
  }

  __device__ __forceinline__ static void put(const Tile<C.block_m, C.block_n>& tile, int row,
                                             int col, u32 pair) {
    *reinterpret_cast<u32*>(tile.at(0, row, col / 8) + col % 8) = pair;
  }

  __device__ __forceinline__ void add_dq(int head, int first_row) const {
    constexpr int kCols = C.d / kByRows;
    float dq[kCols / 2] = {};
    multiply_columns<C.element, false>(ds_, row_group(), k_, kCols / 16 * key_part(), dq);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = first_row + 16 * row_group() + lane / 4;
    const int col = kCols * key_part() + lane % 4 * 2;
    float* const sums =
        p_.dq + ((q_batch() * p_.query_rows + work_.rows.q_base + row) * p_.heads + head) * p_.d;
#pragma unroll
    for (int i = 0; i < kCols / 2; ++i) {
      const int to_row = 8 * Accumulator::slot(i), to_col = col + Accumulator::col_offset(i);
      if (row + to_row < work_.rows.sq && to_col < p_.d) {
        ptx::add_atomically(sums + i64{to_row} * p_.heads * p_.d + to_col, dq[i]);
      }
    }
  }

  __device__ __forceinline__ void write(const Output& o, const Stage<C.block_n, C.d>& stage,
                                        const float (&values)[C.d / kByKeys / 2], float scale,
                                        int columns) const {
    const float factor[2] = {scale, scale};
    // Warps that share 16 keys share their stage, too: one after the other.
#pragma unroll 1
    for (int part = 0; part < kByKeys; ++part) {
      if (part == column_part()) {
        const int key = work_.first_key + 16 * key_group();
        write_rows<C.element>(o, stage, values, factor,
                              row_of(o, k_batch(), i64{work_.rows.k_base} + key, work_.key_head),
                              C.d / kByKeys * part, min(work_.rows.sk - key, 16), columns,
                              p_.accumulate != 0);
      }
      if constexpr (kByKeys > 1) ptx::sync_cta();
    }
  }

  const BackwardParams& p_;
  const KeyWork& work_;
  Tile<C.block_n, C.d> k_;
  Tile<C.block_n, C.d> v_;
  Tile<C.block_m, C.d> q_;
  Tile<C.block_m, C.d> dout_;
  Tile<C.block_m, C.block_n> weights_;
  Tile<C.block_m, C.block_n> ds_;
  core::PhiloxKey subkey_{};
  float dk_[C.d / kByKeys / 2] = {};
  float dv_[C.d / kByKeys / 2] = {};
};

// dK = dV = 0 in rows `begin` to `end` - 1 of one batch. Threads: a whole warp.
__device__ __forceinline__ void clear_keys(const BackwardParams& p, int batch, i64 begin, i64 end) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (i64 row = begin; row < end; ++row) {
    for (int head = 0; head < p.heads / p.group; ++head) {
      char* const dk = row_of(p.dk, batch, row, head);
      char* const dv = row_of(p.dv_out, batch, row, head);
      for (int col = lane; col < p.k_columns; col += 32) put_number(p.dk, dk, col, 0.f, false);
      for (int col = lane; col < p.v_columns; col += 32) put_number(p.dv_out, dv, col, 0.f, false);
    }
  }
}

// Rows past a sequence's used length, and past the last of packed tensors, dealt out to `workers`
// warps. Threads: a whole warp.
__device__ __forceinline__ void clear_unused_keys(const BackwardParams& p, i64 worker,
                                                  i64 workers) {
  const Lengths& l = p.lengths;
  const bool packed = l.cu_k != nullptr;
  if (packed || l.used_k != nullptr) {
    for (i64 n = worker; n < l.batch; n += workers) {
      const Sequence s = read_sequence(p, static_cast<int>(n));
      const int owned = packed ? max(min(l.cu_k[n + 1], l.total_k) - s.k_base, 0) : p.sk;
      clear_keys(p, packed ? 0 : static_cast<int>(n), i64{s.k_base} + s.sk, i64{s.k_base} + owned);
    }
  }
  if (packed) {
    const i64 owned = max(l.cu_k[l.batch], 0);
    for (i64 row = owned + worker; row < l.total_k; row += workers) clear_keys(p, 0, row, row + 1);
  }
}

// The kernel. Blocks of keys are dealt out to the CTAs in turn. Threads: threads(C), shared memory:
// backward_shared_bytes(C).
template <Config C>
__device__ __forceinline__ void backward(const BackwardParams& p) {
  static_assert(backward_tile_bytes(C) + sizeof(KeyWork) <= backward_shared_bytes(C));
  KeyWork& work = *reinterpret_cast<KeyWork*>(ptx::dynamic_shared() + backward_tile_bytes(C));
  for (int number = static_cast<int>(blockIdx.x); number < p.blocks;
       number += static_cast<int>(gridDim.x)) {
    ptx::sync_cta();  // nobody reads the last block's
    if (threadIdx.x == 0) work = find_key_work<C>(p, number);
    ptx::sync_cta();
    if (work.first_key < work.rows.sk) Backward<C>(p, work).run();
  }
  if (p.accumulate == 0) {
    clear_unused_keys(p, i64{blockIdx.x} * C.warps + threadIdx.x / 32, i64{gridDim.x} * C.warps);
  }
}

}  // namespace volley::cuda::v2
