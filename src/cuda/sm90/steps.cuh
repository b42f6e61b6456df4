// SPDX-License-Identifier: BSD-3-Clause
//
// The steps that a consumer warpgroup's loops are made of: read a tile's record, issue QK^T, issue
// PV, hide keys. The softmax steps are in common/softmax.cuh, the loops in consume.cuh.
#pragma once

#include "cuda/common/softmax.cuh"
#include "cuda/sm90/smem.cuh"

namespace volley::cuda {

// What a consumer warpgroup knows of its tile.
struct TileView {
  Tile tile;
  int first_row;  // of this warpgroup's 64
  int unmasked;   // blocks before this one hide nothing from these rows
};

// A tile's record. Its fields are made uniform, so that loops over blocks and the descriptors
// computed in them stay in uniform registers.
// Threads: a warpgroup, which has waited for q_full. Smem: the record.
template <FwdConfig C>
__device__ __forceinline__ TileView read_tile(const FwdParams& p, const Tile& record,
                                              int warpgroup) {
  TileView view;
  view.tile = {ptx::uniform(record.first_row), ptx::uniform(record.head),
               ptx::uniform(record.batch), ptx::uniform(record.blocks)};
  view.first_row = view.tile.first_row + warpgroup * kRowsPerGroup;
  view.unmasked = unmasked_blocks<C.mask, C.block_n>(p, view.first_row);
  return view;
}

// Descriptors of the three operands' first tiles; stages are reached by adding to them.
template <FwdConfig C>
struct Operands {
  u64 q, k, v;

  __device__ __forceinline__ Operands(FwdSmem<C>& smem, int warpgroup)
      : q(descriptor(ptx::shared_address(smem.q[0] + warpgroup * kRowsPerGroup * kChunk), 0)),
        k(descriptor(ptx::shared_address(smem.k[0]), 0)),
        v(descriptor(ptx::shared_address(smem.v[0]), C.block_n * kChunk)) {}

  __device__ __forceinline__ u64 q_at(int slot) const {
    return q + units(C.block_m * C.d) * static_cast<u32>(slot);
  }
  __device__ __forceinline__ u64 k_at(int stage) const {
    return k + units(C.block_n * C.d) * static_cast<u32>(stage);
  }
  __device__ __forceinline__ u64 v_at(int stage) const {
    return v + units(C.block_n * C.dv) * static_cast<u32>(stage);
  }
};

// S = Q K^T of one block, issued and committed as one group.
// Threads: a warpgroup. Registers: s is in flight until the group is waited for. Smem: q, k.
template <FwdConfig C>
__device__ __forceinline__ void issue_qk(float (&s)[C.block_n / 2], u64 q, u64 k) {
#pragma unroll
  for (int step = 0; step < C.d / 16; ++step) {
    ptx::Wgmma<C.element, C.block_n>::template ss<ptx::Major::kK>(
        s, q + k_major_step<C.block_m>(step), k + k_major_step<C.block_n>(step), step > 0);
  }
  ptx::wgmma_commit();
}

// O += P V of one block (O = P V unless `accumulate`), issued and committed as one group.
// Threads: a warpgroup. Registers: o and p are in flight until it is waited for. Smem: v.
template <FwdConfig C>
__device__ __forceinline__ void issue_pv(float (&o)[C.dv / 2], const u32 (&p)[C.block_n / 4], u64 v,
                                         bool accumulate) {
#pragma unroll
  for (int step = 0; step < C.block_n / 16; ++step) {
    const u32* const a = p + AFragment::kRegisters * step;
    ptx::Wgmma<C.element, C.dv>::template rs<ptx::Major::kMN>(
        o, a[0], a[1], a[2], a[3], v + mn_major_step(step), step > 0 || accumulate);
  }
  ptx::wgmma_commit();
}

// Hides what the block's queries may not see; nothing in most blocks.
// Threads: a warpgroup. Registers: s in place.
template <FwdConfig C>
__device__ __forceinline__ void mask_block(const FwdParams& p, const TileView& view, int block,
                                           float (&s)[C.block_n / 2]) {
  if (block < view.unmasked) return;
  const Accumulator at{static_cast<int>(threadIdx.x % kWarpgroup)};
  const int row = view.first_row + at.first_row();
  const int first_key = block * C.block_n;
  const int limit[2] = {visible_keys<C.mask>(p, row) - first_key,
                        visible_keys<C.mask>(p, row + 8) - first_key};
  hide(s, limit, at.first_col());
}

}  // namespace volley::cuda
