// SPDX-License-Identifier: BSD-3-Clause
//
// The steps that a consumer warpgroup's loops are made of: read a tile's record, issue QK^T, issue
// PV, hide keys. The softmax steps are in common/softmax.cuh, the loops in consume.cuh.
#pragma once

#include "cuda/common/layout.cuh"
#include "cuda/common/softmax.cuh"
#include "cuda/sm90/smem.cuh"

namespace volley::cuda {

// What a consumer warpgroup knows of its tile. Blocks are counted from the tile's first.
struct TileView {
  Tile tile;
  int first_row;   // of this warpgroup's 64
  int blocks;      // that this warpgroup needs: all of the tile's, or all but the last
  int clear_from;  // the blocks from this one on up to clear_to - 1 hide nothing from these rows
  int clear_to;
};

// A tile's record. Its fields are made uniform, so that loops over blocks and the descriptors
// computed in them stay in uniform registers.
// Threads: a warpgroup, which has waited for q_full. Smem: the record.
template <FwdConfig C>
__device__ __forceinline__ TileView read_tile(const FwdParams& p, const Tile& record,
                                              int warpgroup) {
  TileView view;
  Tile& tile = view.tile;
  tile.first_row = ptx::uniform(record.first_row);
  tile.head = ptx::uniform(record.head);
  tile.batch = ptx::uniform(record.batch);
  tile.blocks = ptx::uniform(record.blocks);
  constexpr bool kGeneral = C.mask == MaskKind::kGeneral;
  tile.first_block = kGeneral ? ptx::uniform(record.first_block) : 0;
  tile.sq = kGeneral ? ptx::uniform(record.sq) : p.sq;
  tile.sk = kGeneral ? ptx::uniform(record.sk) : p.sk;
  tile.q_base = kGeneral ? ptx::uniform(record.q_base) : 0;

  view.first_row = tile.first_row + warpgroup * kRowsPerGroup;
  const int last_row = view.first_row + kRowsPerGroup - 1;
  const Band band = band_of<C.mask>(p, tile.sq, tile.sk);
  const int end = end_key<C.mask>(band, last_row);  // the last row sees most
  const int needed = (end + C.block_n - 1) / C.block_n - tile.first_block;
  view.blocks = max(1, min(tile.blocks, needed));
  view.clear_to = max(0, end_key<C.mask>(band, view.first_row)) / C.block_n - tile.first_block;
  view.clear_from = 0;
  if constexpr (kGeneral) {
    view.clear_from =
        (first_key<C.mask>(band, last_row) + C.block_n - 1) / C.block_n - tile.first_block;
    // Rows past the last query hold anything; no flag that other rows share may depend on them.
    if (last_row >= tile.sq) view.clear_to = 0;
  }
  return view;
}

// Descriptors of the three operands' first tiles; stages are reached by adding to them.
template <FwdConfig C>
struct Operands {
  using Smem = FwdSmem<C>;
  u64 q, k, v;

  __device__ __forceinline__ Operands(Smem& smem, int warpgroup)
      : q(descriptor(ptx::shared_address(smem.q[0][warpgroup]), 0)),
        k(descriptor(ptx::shared_address(smem.k[0]), 0)),
        v(descriptor(ptx::shared_address(smem.v[0]), C.block_n * kChunk)) {}

  __device__ __forceinline__ u64 q_at(int slot) const {
    return q + units(Smem::kConsumers * Smem::kQElements) * static_cast<u32>(slot);
  }
  __device__ __forceinline__ u64 k_at(int stage) const {
    return k + units(Smem::kKElements) * static_cast<u32>(stage);
  }
  __device__ __forceinline__ u64 v_at(int stage) const {
    return v + units(Smem::kVElements) * static_cast<u32>(stage);
  }
};

// S = Q K^T of one block, issued and committed as one group.
// Threads: a warpgroup. Registers: s is in flight until the group is waited for. Smem: q, k.
template <FwdConfig C>
__device__ __forceinline__ void issue_qk(float (&s)[C.block_n / 2], u64 q, u64 k) {
#pragma unroll
  for (int step = 0; step < C.d / 16; ++step) {
    ptx::Wgmma<C.element, C.block_n>::template ss<ptx::Major::kK>(
        s, q + k_major_step<kRowsPerGroup>(step), k + k_major_step<C.block_n>(step), step > 0);
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

// Caps a block's scores, if the call wants it, and hides what the block's queries may not see.
// Threads: a warpgroup. Registers: s in place.
template <FwdConfig C>
__device__ __forceinline__ void mask_block(const FwdParams& p, const TileView& view, int block,
                                           float (&s)[C.block_n / 2]) {
  if constexpr (C.mask == MaskKind::kGeneral) {
    if (p.lengths.softcap != 0.f) cap(s, p.lengths.softcap);
  }
  if (block >= view.clear_from && block < view.clear_to) return;
  const Accumulator at{static_cast<int>(threadIdx.x % kWarpgroup)};
  const Band band = band_of<C.mask>(p, view.tile.sq, view.tile.sk);
  const int col = (view.tile.first_block + block) * C.block_n + at.first_col();
  int first[2], end[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = view.first_row + at.first_row() + 8 * r;
    first[r] = first_key<C.mask>(band, row) - col;
    end[r] = end_key<C.mask>(band, row) - col;
    if (C.mask == MaskKind::kGeneral && row >= view.tile.sq) end[r] = 0;
  }
  hide<C.mask>(s, first, end);
}

}  // namespace volley::cuda
