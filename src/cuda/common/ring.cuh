// SPDX-License-Identifier: BSD-3-Clause
//
// Turns: where a role stands in a ring of shared-memory stages, and which warpgroup may issue
// matrix products. The barriers themselves are in sm90/smem.cuh.
#pragma once

#include "cuda/ptx/async.cuh"

namespace volley::cuda {

// A position in a ring and the parity of its current lap. Readers of a stage wait for its full
// barrier with `parity`; writers wait for its empty barrier with `parity ^ 1`, which a fresh
// barrier lets pass, so a ring needs no priming.
template <int kStages>
struct Ring {
  int stage = 0;
  u32 parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }

  // Makes the compiler forget that the position is the same in all lanes. Threads: a whole warp.
  __device__ __forceinline__ void hide() {
    stage = ptx::from_lane(stage, 0);
    parity = static_cast<u32>(ptx::from_lane(static_cast<int>(parity), 0));
  }
};

// One arrival for the calling warp: what it has read of a stage may be overwritten.
// Threads: a whole warp. Arrives: `empty`, once a warp.
__device__ __forceinline__ void release(ptx::Barrier& empty) {
  if (threadIdx.x % 32 == 0) ptx::arrive(empty);
}

// The right to issue matrix products goes round the consumer warpgroups (ping-pong): while one
// computes its softmax, another keeps the tensor cores busy. Each warpgroup waits at its own named
// barrier, 1 + warpgroup, where its predecessor arrives. All must take equally many turns.
template <int kWarpgroups, bool kEnabled>
class Baton {
 public:
  __device__ __forceinline__ explicit Baton(int warpgroup) : warpgroup_(warpgroup) {
    if (warpgroup == kWarpgroups - 1) pass();  // the first turn is warpgroup 0's
  }

  // Threads: a warpgroup. Waits: for the predecessor's pass.
  __device__ __forceinline__ void take() const {
    if constexpr (kEnabled && kWarpgroups > 1) ptx::named_sync(1 + warpgroup_, kThreads);
  }

  // Threads: a warpgroup. Arrives: at the successor's barrier.
  __device__ __forceinline__ void pass() const {
    if constexpr (kEnabled && kWarpgroups > 1) {
      const int next = warpgroup_ + 1 == kWarpgroups ? 0 : warpgroup_ + 1;
      ptx::named_arrive(1 + next, kThreads);
    }
  }

 private:
  static constexpr int kThreads = 2 * 128;  // the one that waits and the one that arrives
  int warpgroup_;
};

}  // namespace volley::cuda
