// SPDX-License-Identifier: BSD-3-Clause
//
// FlashAttention-3's forward for Hopper. One CTA stays on each SM and computes a stream of tiles:
// a producer thread loads (load.cuh), two or three consumer warpgroups of 64 query rows each
// compute S = Q K^T, P = softmax(S), O = P V, block by block from the last key to the first
// (consume.cuh).
//
// Softmax is hidden behind matrix products in two ways, each a switch of the config. Ping-pong:
// warpgroups take turns, so one computes softmax while another multiplies. Overlap: within a
// warpgroup the next block's QK^T runs under this block's softmax, across tile boundaries too.
// Read first: smem.cuh.
#pragma once

#include "cuda/sm90/consume.cuh"
#include "cuda/sm90/load.cuh"

namespace volley::cuda {

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
    Consumer<C> consumer(p, smem, warpgroup - 1);
    if constexpr (C.overlap) {
      consumer.run_overlapped();
    } else {
      consumer.run_in_order();
    }
  }
}

}  // namespace volley::cuda
