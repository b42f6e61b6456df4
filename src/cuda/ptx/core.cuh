// SPDX-License-Identifier: BSD-3-Clause
//
// Instructions that are neither asynchronous copies (async.cuh) nor matrix products (wgmma.cuh):
// warp-level helpers, named barriers, register reallocation, arithmetic. One function for one
// instruction, its PTX spelling in the comment. These three files hold all inline PTX there is.
#pragma once

#include "cuda/config.h"
#include "cuda/types.h"

namespace volley::cuda::ptx {

// cvta.to.shared: the 32-bit address that instructions on shared memory take.
__device__ __forceinline__ u32 shared_address(const void* pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// redux.sync.max.s32: the value itself where all lanes agree, in a uniform register. Loop
// counters and descriptors made from it need no per-instruction transfer. Threads: a whole warp.
__device__ __forceinline__ int uniform(int value) {
  int result;
  asm("redux.sync.max.s32 %0, %1, 0xffffffff;" : "=r"(result) : "r"(value));
  return result;
}

// No instruction: the compiler forgets what it knows of the value. What is computed from it stays
// where it is written, instead of waiting in registers since the start of the kernel.
__device__ __forceinline__ int opaque(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// bar.warp.sync: what the lanes wrote to shared memory is seen by all of them. Threads: a warp.
__device__ __forceinline__ void sync_warp() { __syncwarp(); }

// vote.sync.any.pred. Threads: a whole warp.
__device__ __forceinline__ bool any(bool value) { return __any_sync(0xffffffffu, value) != 0; }

// shfl.sync.bfly.b32. Threads: a whole warp.
template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int lanes) {
  return __shfl_xor_sync(0xffffffffu, value, lanes);
}

// shfl.sync.idx.b32: lane `lane`'s value. Threads: a whole warp.
__device__ __forceinline__ int from_lane(int value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}

// vote.sync.ballot: the last lane in which `value` is true, -1 for none. Threads: a whole warp.
__device__ __forceinline__ int last_lane(bool value) {
  return 31 - __clz(static_cast<int>(__ballot_sync(0xffffffffu, value)));
}

// The sum of this lane's value and those of all lanes before it (Hillis and Steele's scan). Of
// values up to 2^30; there the sum stops, too. Threads: a whole warp.
__device__ __forceinline__ int inclusive_sum(int value) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(0xffffffffu, value, static_cast<unsigned>(distance));
    const u32 sum = static_cast<u32>(value) + static_cast<u32>(other);
    if (lane >= distance) value = static_cast<int>(min(sum, 1u << 30));
  }
  return value;
}

// elect.sync: true in one lane. Threads: a whole warp.
__device__ __forceinline__ bool elect_one() {
  u32 elected;
  asm volatile(
      "{\n.reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(elected));
  return elected != 0;
}

// bar.sync: waits until `threads` threads have come to barrier `id` (0 is __syncthreads).
__device__ __forceinline__ void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// bar.arrive: counts this warp at barrier `id` and goes on.
__device__ __forceinline__ void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// setmaxnreg.inc: blocks until the CTA's pool can give each thread kRegisters. A whole warpgroup.
template <int kRegisters>
__device__ __forceinline__ void raise_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// setmaxnreg.dec: returns registers to the CTA's pool. Threads: a whole warpgroup.
template <int kRegisters>
__device__ __forceinline__ void lower_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// ex2.approx.ftz.f32: 2^x to 2 ulp; exactly 1 at 0 and 0 at -infinity.
__device__ __forceinline__ float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// lg2.approx.ftz.f32.
__device__ __forceinline__ float log2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// rcp.approx.ftz.f32: 1 / x to 1 ulp, without the subroutine of an exact division.
__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// cvt.rn.bf16x2.f32: two floats rounded to nearest even, `low` in the low half.
__device__ __forceinline__ u32 pack_bf16(float low, float high) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// cvt.rn.f16x2.f32: the same for fp16.
__device__ __forceinline__ u32 pack_f16(float low, float high) {
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

template <Element kElement>
__device__ __forceinline__ u32 pack(float low, float high) {
  return kElement == Element::kBf16 ? pack_bf16(low, high) : pack_f16(low, high);
}

// fma.rn.bf16x2 or .f16x2 of a pair with 0: `mark` stays 0 until a pair holds an infinity or a NaN,
// and is NaN in that half from then on.
template <Element kElement>
__device__ __forceinline__ void mark_not_finite(u32& mark, u32 pair) {
  if constexpr (kElement == Element::kBf16) {
    asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(mark) : "r"(pair), "r"(0));
  } else {
    asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(mark) : "r"(pair), "r"(0));
  }
}

// cvt.f32.bf16 and cvt.f32.f16.
__device__ __forceinline__ float from_bf16(unsigned short bits) {
  return __builtin_bit_cast(float, u32{bits} << 16);
}
__device__ __forceinline__ float from_f16(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

// trap: ends the kernel with an error.
__device__ __forceinline__ void trap() { asm volatile("trap;"); }

}  // namespace volley::cuda::ptx
