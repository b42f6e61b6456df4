// SPDX-License-Identifier: BSD-3-Clause
//
// FlashAttention-3's forward for Hopper. One CTA stays on each SM and computes a stream of tiles:
// a producer thread loads (load.cuh), two or three consumer warpgroups of 64 query rows each
// compute S = Q K^T, P = softmax(S), O = P V, block by block from the first key to the last
// (consume.cuh).
//
// Softmax is hidden behind matrix products in two ways, each a switch of the config. Ping-pong:
// warpgroups take turns, so one computes softmax while another multiplies. Overlap: within a
// warpgroup the next block's QK^T runs under this block's softmax, across tile boundaries too.
// Read first: smem.cuh.
#pragma once

#include "cuda/sm90/clear.cuh"
#include "cuda/sm90/consume.cuh"
#include "cuda/sm90/load.cuh"

namespace volley::cuda {

// The shell: shared memory, barriers, roles. Grid: any size from 1 up, at most p.tiles.
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
    smem.init();
    if (ptx::shared_address(dynamic_shared) % 1024 != 0) ptx::trap();  // swizzles count on it
  }
  smem.redo.clear();
  __syncthreads();

  if (warpgroup == 0) {
    ptx::lower_registers<producer_registers(C)>();
    const int warp = ptx::uniform(static_cast<int>(threadIdx.x) / 32);
    if (warp == 0) Producer<C>(p, smem).run();
    if constexpr (C.mask == MaskKind::kGeneral) {
      if (warp == 1) Janitor<C>(p, smem).run();
      if (warp == 2) {
        clear_unused_rows(p, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
      }
    }
  } else {
    ptx::raise_registers<consumer_registers(C)>();
    Consumer<C>(p, smem, warpgroup - 1).run();
  }
}

}  // namespace volley::cuda
