// SPDX-License-Identifier: BSD-3-Clause
//
// FlashAttention-3's forward for Hopper. One CTA stays on each SM and computes a stream of tiles:
// a producer thread loads (load.cuh), two or three consumer warpgroups of 64 query rows each
// compute S = Q K^T, P = softmax(S), O = P V, block by block from the last key to the first.
//
// Softmax is hidden behind matrix products in two ways, each a switch of the config. Ping-pong:
// warpgroups take turns, so one computes softmax while another multiplies. Overlap: within a
// warpgroup the next block's QK^T runs under this block's softmax, across tile boundaries too.
// Read first: smem.cuh. Steps: steps.cuh, common/softmax.cuh, epilogue.cuh.
#pragma once

#include "cuda/sm90/epilogue.cuh"
#include "cuda/sm90/load.cuh"
#include "cuda/sm90/steps.cuh"

namespace volley::cuda {

// A consumer warpgroup with overlap. The tiles' blocks form one stream; a step issues the QK^T of
// a block together with the PV of the block before it, and computes the softmax of the first
// under the second. Where the stream crosses into a new tile, the old one is stored.
template <FwdConfig C>
__device__ __forceinline__ void consume_overlapped(const FwdParams& p, FwdSmem<C>& smem,
                                                   int warpgroup) {
  float s[C.block_n / 2], o[C.dv / 2], correction[2];
  u32 probabilities[C.block_n / 4];
  RowState rows;
  const Operands<C> operands(smem, warpgroup);
  const Baton<C.consumers, C.ping_pong> baton(warpgroup);
  Ring<C.q_slots> q;
  Ring<C.stages> k, v;

  // The first block of all: there is no PV yet to run beside it.
  TileView view = await_tile<C>(p, smem, q, warpgroup);
  int block = view.tile.blocks - 1;
  ptx::wait(smem.k_full[k.stage], k.parity);
  ptx::wgmma_fence();
  issue_qk<C>(s, operands.q_at(q.stage), operands.k_at(k.stage));
  ptx::wgmma_wait<0>();
  ptx::touch(s);
  release(smem.k_empty[k.stage]);
  k.advance();
  if (block == 0) release(smem.q_empty[q.stage]);
  mask_block<C>(p, view, block, s);
  softmax<C.lazy_rescale>(s, p.scale_log2, rows, correction);
  convert_p(s, probabilities);
  bool accumulate = false;

  while (true) {
    const bool tile_ends = block == 0;
    TileView next = view;
    if (tile_ends) {
      q.advance();
      next = await_tile<C>(p, smem, q, warpgroup);
      if (next.tile.blocks == 0) break;
      block = next.tile.blocks;
    }
    --block;

    // All waits come before the products: a spin loop between them would serialise them.
    const u64 q_tile = operands.q_at(q.stage);
    const u64 k_tile = operands.k_at(k.stage);
    const u64 v_tile = operands.v_at(v.stage);
    ptx::wait(smem.k_full[k.stage], k.parity);
    ptx::wait(smem.v_full[v.stage], v.parity);
    baton.take();
    ptx::wgmma_fence();
    issue_qk<C>(s, q_tile, k_tile);
    issue_pv<C>(o, probabilities, v_tile, accumulate);
    baton.pass();

    ptx::wgmma_wait<1>();
    ptx::touch(s);
    release(smem.k_empty[k.stage]);
    k.advance();
    if (block == 0) release(smem.q_empty[q.stage]);
    mask_block<C>(p, next, block, s);
    const RowState ended = rows;
    if (tile_ends) rows = RowState{};
    softmax<C.lazy_rescale>(s, p.scale_log2, rows, correction);
    ptx::compute_before_wait(rows.sum[0] + rows.sum[1]);

    ptx::wgmma_wait<0>();
    ptx::touch(o);
    ptx::touch(probabilities);
    release(smem.v_empty[v.stage]);
    v.advance();
    if (tile_ends) {
      store_tile(p, view.tile, view.first_row, ended, o);
    } else {
      rescale(o, correction);
    }
    convert_p(s, probabilities);
    accumulate = !tile_ends;
    view = next;
  }

  // The last PV of all.
  const u64 v_tile = operands.v_at(v.stage);
  ptx::wait(smem.v_full[v.stage], v.parity);
  baton.take();
  ptx::wgmma_fence();
  issue_pv<C>(o, probabilities, v_tile, accumulate);
  baton.pass();
  ptx::wgmma_wait<0>();
  ptx::touch(o);
  store_tile(p, view.tile, view.first_row, rows, o);
}

// A consumer warpgroup without overlap: QK^T, softmax, PV, one after the other. A turn with the
// baton is a block's PV; the next QK^T is issued after it without one.
template <FwdConfig C>
__device__ __forceinline__ void consume_in_order(const FwdParams& p, FwdSmem<C>& smem,
                                                 int warpgroup) {
  float s[C.block_n / 2], o[C.dv / 2], correction[2];
  u32 probabilities[C.block_n / 4];
  const Operands<C> operands(smem, warpgroup);
  const Baton<C.consumers, C.ping_pong> baton(warpgroup);
  Ring<C.q_slots> q;
  Ring<C.stages> k, v;

  while (true) {
    const TileView view = await_tile<C>(p, smem, q, warpgroup);
    if (view.tile.blocks == 0) break;
    RowState rows;
    bool accumulate = false;
    baton.take();
    for (int block = view.tile.blocks - 1; block >= 0; --block) {
      const u64 q_tile = operands.q_at(q.stage);
      const u64 k_tile = operands.k_at(k.stage);
      ptx::wait(smem.k_full[k.stage], k.parity);
      ptx::wgmma_fence();
      issue_qk<C>(s, q_tile, k_tile);
      if (!accumulate) baton.pass();
      ptx::wgmma_wait<0>();
      ptx::touch(s);
      release(smem.k_empty[k.stage]);
      k.advance();
      if (block == 0) release(smem.q_empty[q.stage]);

      mask_block<C>(p, view, block, s);
      softmax<C.lazy_rescale>(s, p.scale_log2, rows, correction);
      if (accumulate) rescale(o, correction);
      convert_p(s, probabilities);

      const u64 v_tile = operands.v_at(v.stage);
      ptx::wait(smem.v_full[v.stage], v.parity);
      baton.take();
      ptx::wgmma_fence();
      issue_pv<C>(o, probabilities, v_tile, accumulate);
      baton.pass();
      ptx::wgmma_wait<0>();
      ptx::touch(o);
      release(smem.v_empty[v.stage]);
      v.advance();
      accumulate = true;
    }
    store_tile(p, view.tile, view.first_row, rows, o);
    q.advance();
  }
}

// The shell: shared memory, barriers, roles. Grid: any size from 1 to p.items.
// Threads: threads(C), a whole CTA. Smem: FwdSmem<C>. p is the kernel's parameter itself.
template <FwdConfig C>
__device__ __forceinline__ void forward(const FwdParams& p) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  auto& smem = *reinterpret_cast<FwdSmem<C>*>(dynamic_shared);
  static_assert(kFits<C>);
  const int warpgroup = ptx::uniform(static_cast<int>(threadIdx.x) / kWarpgroup);

  if (threadIdx.x == 0) {
    ptx::prefetch(p.q);
    ptx::prefetch(p.k);
    ptx::prefetch(p.v);
    smem.init_barriers();
    if (ptx::shared_address(dynamic_shared) % 1024 != 0) ptx::trap();  // swizzles count on it
  }
  __syncthreads();

  if (warpgroup == 0) {
    ptx::lower_registers<C.producer_registers>();
    if (threadIdx.x == 0) Producer<C>(p, smem).run();
  } else {
    ptx::raise_registers<C.consumer_registers>();
    if constexpr (C.overlap) {
      consume_overlapped<C>(p, smem, warpgroup - 1);
    } else {
      consume_in_order<C>(p, smem, warpgroup - 1);
    }
  }
}

}  // namespace volley::cuda
