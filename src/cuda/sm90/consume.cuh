// SPDX-License-Identifier: BSD-3-Clause
//
// The consumer warpgroups' loops over the stream of tiles and blocks, made of the steps in
// steps.cuh. The producer's half of the story is load.cuh, the barriers are listed in smem.cuh.
#pragma once

#include "cuda/common/ring.cuh"
#include "cuda/sm90/epilogue.cuh"
#include "cuda/sm90/steps.cuh"

namespace volley::cuda {

// One warpgroup. S, P and O are arrays in registers; everything here is called by all its threads.
template <FwdConfig C>
class Consumer {
 public:
  __device__ __forceinline__ Consumer(const FwdParams& p, FwdSmem<C>& smem, int warpgroup)
      : p_(p),
        smem_(smem),
        warpgroup_(warpgroup),
        operands_(smem, warpgroup),
        baton_(warpgroup),
        fine_(kGeneral && p.o_is_f32 != 0),
        growth_(C.maximum == Maximum::kLazy && !fine_ ? kLazyGrowth : 0.f) {}

  __device__ __forceinline__ void run() {
    if constexpr (C.overlap) {
      run_overlapped();
    } else {
      run_in_order();
    }
    if constexpr (kOptimistic) run_again();
  }

 private:
  static constexpr bool kOptimistic = C.maximum == Maximum::kOptimistic;
  static constexpr bool kGeneral = C.mask == MaskKind::kGeneral;
  // Three warpgroups leave no registers for it.
  static constexpr bool kHidesStore = C.consumers() < 3;
  // Blocks go from left to right: outside the general kernel a row that sees any key sees the
  // first, so these columns hold one of its scores. That is enough to trust.
  static constexpr int kTrustedColumns = 32;

  // A tile that has been computed; O is still in registers.
  struct Ending {
    RowEnds rows;
    int number;  // in this CTA's stream
  };

  // With overlap: a step issues the QK^T of a block together with the PV of the block before it,
  // and computes the first one's softmax under the second. The blocks of all tiles form one
  // stream. Where it crosses into a new tile, the old tile's O leaves the registers while the new
  // one's second QK^T runs.
  // Every warpgroup takes one turn for each block of each tile, also for one that it skips.
  __device__ __forceinline__ void run_overlapped() {
    TileView view = this_tile();
    if (view.tile.ends_stream()) return;
    start_tile(view, false);
    int block = 1;
    int number = 0;
    while (true) {
      if constexpr (!kGeneral) {
        const int clear_to = min(view.clear_to, view.blocks);
        for (; block < clear_to; ++block) step<false, false>(view, block, {});
      }
      for (; block < view.blocks; ++block) step<true, false>(view, block, {});
      block = 1;

      const bool skips = view.blocks < view.tile.blocks;
      const bool alone = skips || !C.flat;
      TileView next = view;
      if (!alone) next = next_tile();
      if (alone || next.tile.ends_stream()) {
        if (skips) skip_k();
        multiply_pv();
        store(ending(view, number++));
        if (alone) next = next_tile();
        if (next.tile.ends_stream()) {
          if (skips) skip_turn_and_v();
          break;
        }
        view = next;
        start_tile(view, skips);
        if (skips) skip_v();
        continue;
      }

      const Ending old = cross(view, next, number++);
      view = next;
      if (kHidesStore && view.blocks > 1) {
        convert(false);
        step<true, kHidesStore>(view, block++, old);
      } else {
        store(old);
        convert(false);
      }
    }
  }

  // Without overlap: QK^T, softmax, PV, one after the other. A turn with the baton is one PV; the
  // next QK^T is issued after it without a turn.
  __device__ __forceinline__ void run_in_order() {
    int number = 0;
    TileView view = this_tile();
    while (!view.tile.ends_stream()) {
      baton_.take();
      accumulate_ = false;
      for (int block = 0; block < view.tile.blocks; ++block) {
        multiply_qk(block == 0, block == view.tile.blocks - 1);
        mask_block<C>(p_, view, block, s_);
        if (softmax(block == 0)) rescale(o_, correction_);
        convert(block > 0);
        multiply_pv();
        accumulate_ = true;
      }
      store(ending(view, number++));
      view = next_tile();
    }
  }

  // The tiles whose maxima were taken on trust and should not have been: block by block, exactly.
  __device__ __forceinline__ void run_again() {
    release(smem_.q_empty[q_.stage][warpgroup_]);  // the record that ended the first stream
    release(smem_.finished);
    // Opaque copies: what this rare loop does to them must not move the others' out of uniform
    // registers.
    q_.hide();
    k_.hide();
    v_.hide();
    q_.advance();
    TileView view = this_tile();
    while (!view.tile.ends_stream()) {
      rows_ = RowState{};
      accumulate_ = false;
      for (int block = 0; block < view.tile.blocks; ++block) {
        await_k();
        ptx::wgmma_fence();
        issue_qk<C>(s_, operands_.q_at(ptx::uniform(q_.stage)),
                    operands_.k_at(ptx::uniform(k_.stage)));
        ptx::wgmma_wait<0>();
        ptx::touch(s_);
        release_k(block == view.tile.blocks - 1);
        mask_block<C>(p_, view, block, s_);
        const bool moved = follow_maxima(s_, p_.scale_log2, 0.f, rows_, correction_);
        exponentiate(s_, p_.scale_log2, rows_);
        if (moved && accumulate_) rescale(o_, correction_);
        convert_p<C.element>(s_, probabilities_);
        await_v();
        ptx::wgmma_fence();
        issue_pv<C>(o_, probabilities_, operands_.v_at(ptx::uniform(v_.stage)), accumulate_);
        finish_pv();
        accumulate_ = true;
      }
      store_o<C>(p_, ending(view, 0).rows, o_);
      view = next_tile();
    }
  }

  // --- Parts of run_overlapped.

  // A tile's first QK^T and softmax by themselves, in a turn or not.
  __device__ __forceinline__ void start_tile(const TileView& view, bool in_turn) {
    const u64 q = operands_.q_at(ptx::uniform(q_.stage));
    const u64 k = operands_.k_at(ptx::uniform(k_.stage));
    await_k();
    if (in_turn) baton_.take();
    ptx::wgmma_fence();
    issue_qk<C>(s_, q, k);
    if (in_turn) baton_.pass();
    ptx::wgmma_wait<0>();
    ptx::touch(s_);
    release_k(view.blocks == 1);
    mask_block<C>(p_, view, 0, s_);
    softmax(true);
    convert(false);
    accumulate_ = false;
  }

  // QK^T of block `block` and PV of the one before; S has become P of the former, unconverted in
  // kCrosses. kStores: O is still the old tile's, and leaves between the two.
  template <bool kMasked, bool kStores>
  __device__ __forceinline__ void step(const TileView& view, int block, const Ending& old) {
    issue_products<kStores>(old);
    release_k(block == view.blocks - 1);
    if constexpr (kMasked) mask_block<C>(p_, view, block, s_);
    const bool moved = softmax(false);
    finish_pv();
    if (moved) rescale(o_, correction_);
    convert(true);
    accumulate_ = true;
  }

  // The QK^T of a new tile's first block and the last PV of the tile before. O is then complete,
  // rows_ are the new tile's and S holds its P, which is not converted yet.
  __device__ __forceinline__ Ending cross(const TileView& from, const TileView& to, int number) {
    issue_products<false>({});
    release_k(to.blocks == 1);
    const Ending old = ending(from, number);
    mask_block<C>(p_, to, 0, s_);
    softmax(true);
    finish_pv();
    accumulate_ = false;
    return old;
  }

  // All waits come before the products: a spin loop between them would serialise them.
  template <bool kStores>
  __device__ __forceinline__ void issue_products(const Ending& old) {
    const u64 q = operands_.q_at(ptx::uniform(q_.stage));
    const u64 k = operands_.k_at(ptx::uniform(k_.stage));
    const u64 v = operands_.v_at(ptx::uniform(v_.stage));
    await_k();
    await_v();
    baton_.take();
    ptx::wgmma_fence();
    issue_qk<C>(s_, q, k);
    if constexpr (kStores) {
      store(old);
      ptx::touch(o_);
      ptx::wgmma_fence();
    }
    issue_pv<C>(o_, probabilities_, v, accumulate_);
    baton_.pass();
    ptx::wgmma_wait<1>();
    ptx::touch(s_);
  }

  // The tile's last block lies above this warpgroup's diagonal: its K and V go by unused.
  __device__ __forceinline__ void skip_k() {
    await_k();
    release_k(false);
  }
  __device__ __forceinline__ void skip_v() {
    await_v();
    release_v();
  }
  __device__ __forceinline__ void skip_turn_and_v() {
    baton_.take();
    baton_.pass();
    skip_v();
  }

  // --- Parts of every loop.

  // S becomes P. Returns whether O must be multiplied by correction_.
  __device__ __forceinline__ bool softmax(bool first) {
    bool moved = false;
    if constexpr (kOptimistic) {
      if (first) rows_ = first_maxima<kTrustedColumns>(s_, p_.scale_log2);
    } else {
      if (first) rows_ = RowState{};
      moved = follow_maxima(s_, p_.scale_log2, growth_, rows_, correction_) && !first;
      if (fine_) rows_.huge = true;
    }
    block_sum_ = exponentiate(s_, p_.scale_log2, rows_);
    return moved;
  }

  // P in 16 bits. Where a maximum was taken too low for fp16, it is moved first, which almost never
  // happens; O follows if it belongs to this tile already and is not in flight.
  __device__ __forceinline__ void convert(bool with_o) {
    convert_p<C.element>(s_, probabilities_);
    if constexpr (kOptimistic && C.element == Element::kF16) {
      if (ptx::any(block_sum_ > kLargestP)) {
        rebase(s_, p_.scale_log2, rows_, correction_);
        if (with_o) rescale(o_, correction_);
        convert_p<C.element>(s_, probabilities_);
      }
    }
  }

  __device__ __forceinline__ Ending ending(const TileView& view, int number) const {
    return {end_rows<C>(p_, view.tile, view.first_row, rows_), number};
  }

  __device__ __forceinline__ void store(const Ending& old) {
    const bool infinite = store_o<C>(p_, old.rows, o_);
    if constexpr (kOptimistic) {
      if (ptx::any(infinite || old.rows.spoilt) && threadIdx.x % 32 == 0) {
        smem_.redo.add(old.number);
      }
    }
  }

  // QK^T of one block, to the end.
  __device__ __forceinline__ void multiply_qk(bool first, bool last) {
    const u64 q = operands_.q_at(ptx::uniform(q_.stage));
    const u64 k = operands_.k_at(ptx::uniform(k_.stage));
    await_k();
    ptx::wgmma_fence();
    issue_qk<C>(s_, q, k);
    if (first) baton_.pass();
    ptx::wgmma_wait<0>();
    ptx::touch(s_);
    release_k(last);
  }

  // A turn that is one PV, from waiting for V to O in registers.
  __device__ __forceinline__ void multiply_pv() {
    const u64 v = operands_.v_at(ptx::uniform(v_.stage));
    await_v();
    baton_.take();
    ptx::wgmma_fence();
    issue_pv<C>(o_, probabilities_, v, accumulate_);
    baton_.pass();
    finish_pv();
  }

  __device__ __forceinline__ void finish_pv() {
    ptx::wgmma_wait<0>();
    ptx::touch(o_);
    ptx::touch(probabilities_);
    release_v();
  }

  // The next tile of the stream, once its queries are there. Waits: q_full.
  __device__ __forceinline__ TileView next_tile() {
    q_.advance();
    return this_tile();
  }
  __device__ __forceinline__ TileView this_tile() {
    ptx::wait(smem_.q_full[q_.stage][warpgroup_], q_.parity);
    const TileView view = read_tile<C>(p_, smem_.tile[q_.stage][warpgroup_], warpgroup_);
    __syncwarp();  // one lane will release the slot for all
    return view;
  }

  // Waits: k_full, v_full.
  __device__ __forceinline__ void await_k() { ptx::wait(smem_.k_full[k_.stage], k_.parity); }
  __device__ __forceinline__ void await_v() { ptx::wait(smem_.v_full[v_.stage], v_.parity); }

  // After a QK^T. Arrives: k_empty; q_empty after the tile's last.
  __device__ __forceinline__ void release_k(bool last) {
    release(smem_.k_empty[k_.stage]);
    k_.advance();
    if (last) release(smem_.q_empty[q_.stage][warpgroup_]);
  }

  // After a PV. Arrives: v_empty.
  __device__ __forceinline__ void release_v() {
    release(smem_.v_empty[v_.stage]);
    v_.advance();
  }

  const FwdParams& p_;
  FwdSmem<C>& smem_;
  const int warpgroup_;
  const Operands<C> operands_;
  const Baton<C.consumers(), C.ping_pong> baton_;
  // A result in fp32 shows what 16 bits hide: the largest P shall be exactly 1.
  const bool fine_;
  const float growth_;  // that a maximum waits for
  Ring<C.q_slots> q_;
  Ring<C.stages> k_, v_;

  float s_[C.block_n / 2];            // S, then P, of a block
  u32 probabilities_[C.block_n / 4];  // P in 16 bits
  float o_[C.dv / 2];                 // of a tile, not yet divided by the sums
  RowState rows_;                     // of the tile whose P are in s_
  float correction_[2];
  float block_sum_;          // the larger of the thread's two in the last block
  bool accumulate_ = false;  // O is not the tile's first
};

}  // namespace volley::cuda
