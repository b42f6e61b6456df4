// SPDX-License-Identifier: BSD-3-Clause
//
// Shared memory of a forward CTA: tiles, barriers, tile records, as one struct.
//
//   barrier    arrives                                     count       waits
//   q_full     producer, with a warpgroup's queries        1 + bytes   that warpgroup
//   q_empty    a warpgroup, after the tile's last QK^T     4 warps     producer
//   k_full     producer, with the block's bytes            1 + bytes   consumers
//   k_empty    consumers, after the block's QK^T           warps       producer
//   v_full     producer, with the block's bytes; or        1 + bytes   consumers
//              janitor, once it has cleared rows           1
//   v_empty    consumers, after the block's PV             warps       producer
//   v_landed   producer, bytes of a block to be cleared    1 + bytes   janitor
//   finished   consumers, after the last regular tile      warps       producer
//
// A slot's q_full also covers its tile record; the end of the stream is a record without bytes.
// Named barriers: 0 is __syncthreads, 1 + i is warpgroup i's turn (common/ring.cuh).
#pragma once

#include "cuda/common/tile.cuh"
#include "cuda/ptx/async.cuh"

namespace volley::cuda {

// Which tiles of a CTA's stream must be computed again, by their number.
struct RedoList {
  u32 words[kRedoTiles / 32];

  // Threads: a whole CTA.
  __device__ __forceinline__ void clear() {
    for (int i = static_cast<int>(threadIdx.x); i < kRedoTiles / 32;
         i += static_cast<int>(blockDim.x)) {
      words[i] = 0;
    }
  }
  __device__ __forceinline__ void add(int number) {
    atomicOr(&words[number / 32], 1u << number % 32);
  }
  __device__ __forceinline__ bool contains(int number) const {
    return (words[number / 32] >> number % 32 & 1) != 0;
  }
};

struct NoRedoList {
  __device__ __forceinline__ void clear() {}
};
template <bool kNeeded>
struct RedoListIf {
  using Type = NoRedoList;
};
template <>
struct RedoListIf<true> {
  using Type = RedoList;
};

template <FwdConfig C>
struct FwdSmem {
  static constexpr int kConsumers = C.consumers();
  static constexpr int kQElements = kRowsPerGroup * chunks(C.d) * kChunk;
  static constexpr int kKElements = C.block_n * chunks(C.d) * kChunk;
  static constexpr int kVElements = C.block_n * chunks(C.dv) * kChunk;

  alignas(1024) Bits16 q[C.q_slots][kConsumers][kQElements];
  alignas(1024) Bits16 k[C.stages][kKElements];
  alignas(1024) Bits16 v[C.stages][kVElements];

  ptx::Barrier q_full[C.q_slots][kConsumers];
  ptx::Barrier q_empty[C.q_slots][kConsumers];
  ptx::Barrier k_full[C.stages];
  ptx::Barrier k_empty[C.stages];
  ptx::Barrier v_full[C.stages];
  ptx::Barrier v_empty[C.stages];
  ptx::Barrier v_landed[C.stages];
  ptx::Barrier finished;
  Tile tile[C.q_slots][kConsumers];
  typename RedoListIf<C.maximum == Maximum::kOptimistic>::Type redo;

  // Threads: one; the CTA must synchronise before anyone uses a barrier.
  __device__ __forceinline__ void init() {
    constexpr int kWarps = kConsumers * 4;
    for (int slot = 0; slot < C.q_slots; ++slot) {
      for (int group = 0; group < kConsumers; ++group) {
        ptx::init(q_full[slot][group], 1);
        ptx::init(q_empty[slot][group], 4);
      }
    }
    for (int stage = 0; stage < C.stages; ++stage) {
      ptx::init(k_full[stage], 1);
      ptx::init(k_empty[stage], kWarps);
      ptx::init(v_full[stage], 1);
      ptx::init(v_empty[stage], kWarps);
      ptx::init(v_landed[stage], 1);
    }
    ptx::init(finished, kWarps);
    ptx::fence_barrier_init();
  }
};

// The host's sum of the same plan leaves this struct enough.
template <FwdConfig C>
inline constexpr bool kFits = sizeof(FwdSmem<C>) <= shared_bytes(C);

}  // namespace volley::cuda
