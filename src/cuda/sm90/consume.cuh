// SPDX-License-Identifier: BSD-3-Clause
//
// The consumer warpgroups' two loops over the stream of tiles and blocks, made of the steps in
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
      : p_(p), smem_(smem), warpgroup_(warpgroup), operands_(smem, warpgroup), baton_(warpgroup) {}

  // With overlap: a step issues the QK^T of a block together with the PV of the block before it,
  // and computes the first one's softmax under the second. The tiles' blocks form one stream;
  // where it crosses into a new tile, the old one is stored.
  __device__ __forceinline__ void run_overlapped() {
    float s[C.block_n / 2], o[C.dv / 2], correction[2];
    u32 probabilities[C.block_n / 4];
    RowState rows;

    TileView view = next_tile();
    int block = view.tile.blocks - 1;
    await_k();
    ptx::wgmma_fence();
    issue_qk<C>(s, operands_.q_at(q_.stage), operands_.k_at(k_.stage));
    ptx::wgmma_wait<0>();
    ptx::touch(s);
    release_k(block);
    mask_block<C>(p_, view, block, s);
    softmax<C.lazy_rescale>(s, p_.scale_log2, rows, correction);
    convert_p(s, probabilities);
    bool accumulate = false;

    while (true) {
      const bool tile_ends = block == 0;
      TileView next = view;
      if (tile_ends) {
        q_.advance();
        next = next_tile();
        if (next.tile.blocks == 0) break;
        block = next.tile.blocks;
      }
      --block;

      // All waits come before the products: a spin loop between them would serialise them.
      const u64 q = operands_.q_at(q_.stage);
      const u64 k = operands_.k_at(k_.stage);
      const u64 v = operands_.v_at(v_.stage);
      await_k_and_v();
      baton_.take();
      ptx::wgmma_fence();
      issue_qk<C>(s, q, k);
      issue_pv<C>(o, probabilities, v, accumulate);
      baton_.pass();

      ptx::wgmma_wait<1>();
      ptx::touch(s);
      release_k(block);
      mask_block<C>(p_, next, block, s);
      const RowState ended = rows;
      if (tile_ends) rows = RowState{};
      const bool moved = softmax<C.lazy_rescale>(s, p_.scale_log2, rows, correction);
      ptx::compute_before_wait(rows.sum[0] + rows.sum[1]);

      ptx::wgmma_wait<0>();
      ptx::touch(o);
      ptx::touch(probabilities);
      release_v();
      if (tile_ends) {
        store_tile(p_, view.tile, view.first_row, ended, o);
      } else if (moved) {
        rescale(o, correction);
      }
      convert_p(s, probabilities);
      accumulate = !tile_ends;
      view = next;
    }

    multiply_pv(o, probabilities, accumulate);
    store_tile(p_, view.tile, view.first_row, rows, o);
  }

  // Without overlap: QK^T, softmax, PV, one after the other. A turn with the baton is one PV; the
  // next QK^T is issued after it without a turn.
  __device__ __forceinline__ void run_in_order() {
    float s[C.block_n / 2], o[C.dv / 2], correction[2];
    u32 probabilities[C.block_n / 4];

    while (true) {
      const TileView view = next_tile();
      if (view.tile.blocks == 0) break;
      RowState rows;
      baton_.take();
      for (int block = view.tile.blocks - 1; block >= 0; --block) {
        const bool first = block == view.tile.blocks - 1;
        const u64 q = operands_.q_at(q_.stage);
        const u64 k = operands_.k_at(k_.stage);
        await_k();
        ptx::wgmma_fence();
        issue_qk<C>(s, q, k);
        if (first) baton_.pass();
        ptx::wgmma_wait<0>();
        ptx::touch(s);
        release_k(block);

        mask_block<C>(p_, view, block, s);
        const bool moved = softmax<C.lazy_rescale>(s, p_.scale_log2, rows, correction);
        if (moved && !first) rescale(o, correction);
        convert_p(s, probabilities);

        multiply_pv(o, probabilities, !first);
      }
      store_tile(p_, view.tile, view.first_row, rows, o);
      q_.advance();
    }
  }

 private:
  // Waits: q_full.
  __device__ __forceinline__ TileView next_tile() {
    ptx::wait(smem_.q_full[q_.stage], q_.parity);
    return read_tile<C>(p_, smem_.tile[q_.stage], warpgroup_);
  }

  // Waits: k_full, v_full, or both at once, so that one looks while the other is looked up.
  __device__ __forceinline__ void await_k() { ptx::wait(smem_.k_full[k_.stage], k_.parity); }
  __device__ __forceinline__ void await_v() { ptx::wait(smem_.v_full[v_.stage], v_.parity); }
  __device__ __forceinline__ void await_k_and_v() {
    const bool k_is_full = ptx::try_wait(smem_.k_full[k_.stage], k_.parity);
    const bool v_is_full = ptx::try_wait(smem_.v_full[v_.stage], v_.parity);
    if (!k_is_full) await_k();
    if (!v_is_full) await_v();
  }

  // After the QK^T of `block`. Arrives: k_empty; q_empty after the tile's last.
  __device__ __forceinline__ void release_k(int block) {
    release(smem_.k_empty[k_.stage]);
    k_.advance();
    if (block == 0) release(smem_.q_empty[q_.stage]);
  }

  // After a PV. Arrives: v_empty.
  __device__ __forceinline__ void release_v() {
    release(smem_.v_empty[v_.stage]);
    v_.advance();
  }

  // A turn that is one PV, from waiting for V to O in registers.
  __device__ __forceinline__ void multiply_pv(float (&o)[C.dv / 2], u32 (&p)[C.block_n / 4],
                                              bool accumulate) {
    const u64 v = operands_.v_at(v_.stage);
    await_v();
    baton_.take();
    ptx::wgmma_fence();
    issue_pv<C>(o, p, v, accumulate);
    baton_.pass();
    ptx::wgmma_wait<0>();
    ptx::touch(o);
    ptx::touch(p);
    release_v();
  }

  const FwdParams& p_;
  FwdSmem<C>& smem_;
  const int warpgroup_;
  const Operands<C> operands_;
  const Baton<C.consumers, C.ping_pong> baton_;
  Ring<C.q_slots> q_;
  Ring<C.stages> k_, v_;
};

}  // namespace volley::cuda
