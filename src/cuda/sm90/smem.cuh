// SPDX-License-Identifier: BSD-3-Clause
//
// Shared memory of a forward CTA: tiles, barriers, tile records, as one struct.
//
//   barrier   arrives                                     count       waits
//   q_full    producer, with the tile's bytes             1 + bytes   consumers
//   q_empty   consumers, after the tile's last QK^T       warps       producer
//   k_full    producer, with the block's bytes            1 + bytes   consumers
//   k_empty   consumers, after the block's QK^T           warps       producer
//   v_full    producer, with the block's bytes            1 + bytes   consumers
//   v_empty   consumers, after the block's PV             warps       producer
//
// A slot's q_full also covers its tile record; the end of the stream is a record without bytes.
// Named barriers: 0 is __syncthreads, 1 + i is warpgroup i's turn (common/ring.cuh).
#pragma once

#include "cuda/common/tile.cuh"
#include "cuda/ptx/async.cuh"

namespace volley::cuda {

template <FwdConfig C>
struct FwdSmem {
  static constexpr int kConsumerWarps = C.consumers * 4;

  alignas(1024) Bf16 q[C.q_slots][C.block_m * C.d];
  alignas(1024) Bf16 k[C.stages][C.block_n * C.d];
  alignas(1024) Bf16 v[C.stages][C.block_n * C.dv];

  ptx::Barrier q_full[C.q_slots];
  ptx::Barrier q_empty[C.q_slots];
  ptx::Barrier k_full[C.stages];
  ptx::Barrier k_empty[C.stages];
  ptx::Barrier v_full[C.stages];
  ptx::Barrier v_empty[C.stages];
  Tile tile[C.q_slots];

  // Threads: one; the CTA must synchronise before anyone uses a barrier.
  __device__ __forceinline__ void init_barriers() {
    for (int i = 0; i < C.q_slots; ++i) {
      ptx::init(q_full[i], 1);
      ptx::init(q_empty[i], kConsumerWarps);
    }
    for (int i = 0; i < C.stages; ++i) {
      ptx::init(k_full[i], 1);
      ptx::init(k_empty[i], kConsumerWarps);
      ptx::init(v_full[i], 1);
      ptx::init(v_empty[i], kConsumerWarps);
    }
    ptx::fence_barrier_init();
  }
};

// The host's sum of the same plan leaves this struct enough.
template <FwdConfig C>
inline constexpr bool kFits = sizeof(FwdSmem<C>) <= shared_bytes(C);

}  // namespace volley::cuda
