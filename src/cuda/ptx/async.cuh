// SPDX-License-Identifier: BSD-3-Clause
//
// Asynchronous copies and the mbarriers that announce them. A barrier's phase ends when its count
// of arrivals and its bytes are complete; waiters name the parity of the phase they wait for.
// common/ring.cuh turns that into a ring of stages.
#pragma once

#include "cuda/ptx/core.cuh"

namespace volley::cuda::ptx {

// An mbarrier in shared memory.
struct alignas(8) Barrier {
  u64 state;
};

// mbarrier.init: `arrivals` complete each phase. Threads: one, before the fence below.
__device__ __forceinline__ void init(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)),
               "r"(arrivals)
               : "memory");
}

// fence.mbarrier_init: makes initialised barriers visible to the copy engine.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// mbarrier.arrive: one arrival; releases what this thread wrote or has finished reading.
__device__ __forceinline__ void arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier))
               : "memory");
}

// mbarrier.arrive.expect_tx: one arrival, and the phase now also waits for `bytes` to be copied.
__device__ __forceinline__ void arrive_expecting(Barrier& barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)),
      "r"(bytes)
      : "memory");
}

// mbarrier.try_wait.parity: whether the phase of this parity is complete; may suspend the thread
// for a while first. On a fresh barrier parity 1 is complete and parity 0 is not.
__device__ __forceinline__ bool try_wait(Barrier& barrier, u32 parity) {
  u32 complete;
  asm volatile(
      "{\n.reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(complete)
      : "r"(shared_address(&barrier)), "r"(parity)
      : "memory");
  return complete != 0;
}

// Waits for the phase of this parity; acquires what its arrivals released.
__device__ __forceinline__ void wait(Barrier& barrier, u32 parity) {
  while (!try_wait(barrier, parity)) {
  }
}

// prefetch.tensormap: brings a tensor map into the descriptor cache. Threads: one.
__device__ __forceinline__ void prefetch(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// fence.proxy.async: what this thread wrote to shared memory is seen by later wgmma.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// cp.async.bulk.tensor.4d: one box of a tensor (batch, head, row, col) into shared memory, bytes
// counted on `full`. Parts of the box outside the tensor arrive as zeros and count. Threads: one.
__device__ __forceinline__ void load_box(void* destination, const TensorMap& map, Barrier& full,
                                         int col, int row, int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(destination)),
      "l"(&map), "r"(shared_address(&full)), "r"(col), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

}  // namespace volley::cuda::ptx
