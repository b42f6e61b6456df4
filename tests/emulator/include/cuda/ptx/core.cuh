// SPDX-License-Identifier: BSD-3-Clause
//
// The emulator's twin of src/cuda/ptx/core.cuh, which says what each function means. Left out is
// what only Hopper's kernels use: named barriers, elect, setmaxnreg, addresses as numbers.
#pragma once

#include <bit>
#include <cfloat>
#include <cstring>
#include <limits>

#include "cuda/config.h"
#include "cuda/types.h"
#include "dtype.h"
#include "emulator/device.h"

namespace volley::cuda::ptx {

__device__ __forceinline__ int uniform(int value) { return emulator::largest(value); }

__device__ __forceinline__ int opaque(int value) { return value; }

__device__ __forceinline__ void sync_warp() { emulator::sync_warp(); }
__device__ __forceinline__ void named_sync(int id, int threads) {
  emulator::named_sync(id, threads);
}

__device__ __forceinline__ bool any(bool value) { return emulator::ballot(value) != 0; }

// A shuffle of any type that a register or two can hold.
template <class T>
__device__ __forceinline__ T exchange(T value, int from_lane) {
  u64 bits = 0;
  static_assert(sizeof value <= sizeof bits);
  std::memcpy(&bits, &value, sizeof value);
  bits = emulator::exchange(bits, from_lane);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class T>
__device__ __forceinline__ T shuffle_xor(T value, int lanes) {
  return exchange(value, static_cast<int>(threadIdx.x) ^ lanes);
}

__device__ __forceinline__ int from_lane(int value, int lane) { return exchange(value, lane); }

__device__ __forceinline__ int last_lane(bool value) {
  return 31 - std::countl_zero(emulator::ballot(value));
}

__device__ __forceinline__ int inclusive_sum(int value) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = exchange(value, max(lane - distance, 0));
    const u32 sum = static_cast<u32>(value) + static_cast<u32>(other);
    if (lane >= distance) value = static_cast<int>(min(sum, 1u << 30));
  }
  return value;
}

// .ftz: subnormal numbers are zeros, on the way in and out.
__device__ __forceinline__ float flush(float x) {
  return fabsf(x) < FLT_MIN ? copysignf(0.f, x) : x;
}

__device__ __forceinline__ float exp2(float x) { return flush(exp2f(flush(x))); }
__device__ __forceinline__ float log2(float x) { return flush(log2f(flush(x))); }
__device__ __forceinline__ float reciprocal(float x) { return flush(1 / flush(x)); }

// A NaN's bits are the hardware's only one.
__device__ __forceinline__ u32 pack_bf16(float low, float high) {
  const auto round = [](float x) -> u32 { return x != x ? 0x7fffu : core::float_to_bf16(x); };
  return round(low) | round(high) << 16;
}

__device__ __forceinline__ u32 pack_f16(float low, float high) {
  const auto round = [](float x) -> u32 { return x != x ? 0x7fffu : core::float_to_f16(x); };
  return round(low) | round(high) << 16;
}

template <Element kElement>
__device__ __forceinline__ u32 pack(float low, float high) {
  return kElement == Element::kBf16 ? pack_bf16(low, high) : pack_f16(low, high);
}

template <Element kElement>
__device__ __forceinline__ void mark_not_finite(u32& mark, u32 pair) {
  constexpr u32 kExponent = kElement == Element::kBf16 ? 0x7f80u : 0x7c00u;
  for (const int shift : {0, 16}) {
    if ((pair >> shift & kExponent) == kExponent) mark |= 0x7fffu << shift;
  }
}

__device__ __forceinline__ float from_bf16(unsigned short bits) {
  return core::bf16_to_float(bits);
}
__device__ __forceinline__ float from_f16(unsigned short bits) { return core::f16_to_float(bits); }

__device__ __forceinline__ void trap() { emulator::fail("trap"); }

}  // namespace volley::cuda::ptx
