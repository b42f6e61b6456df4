// SPDX-License-Identifier: BSD-3-Clause
//
// Vec: as many floats as a register of the target holds, by GCC's and Clang's vector extensions, so
// that the same source serves SSE2, AVX2, AVX-512 and other architectures. Everything here and in
// the other .inc.h files has internal linkage: each is compiled once per instruction set.
#pragma once

#include <cstdint>

namespace volley::core {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(kLanes * 4)));
typedef int32_t IVec __attribute__((vector_size(kLanes * 4)));
typedef uint32_t UVec __attribute__((vector_size(kLanes * 4)));
typedef uint16_t HalfVec __attribute__((vector_size(kLanes * 2)));

[[gnu::always_inline]] inline Vec splat(float x) { return Vec{} + x; }
[[gnu::always_inline]] inline IVec splat(int32_t x) { return IVec{} + x; }

template <class V>
[[gnu::always_inline]] inline V load(const void* from) {
  V x;
  __builtin_memcpy(&x, from, sizeof x);
  return x;
}

template <class V>
[[gnu::always_inline]] inline void store(void* to, V x) {
  __builtin_memcpy(to, &x, sizeof x);
}

// The same bits as another type.
template <class To, class From>
[[gnu::always_inline]] inline To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  __builtin_memcpy(&y, &x, sizeof y);
  return y;
}

// NaN in x is dropped: it shows again in the weights.
[[gnu::always_inline]] inline Vec larger(Vec x, Vec y) { return x > y ? x : y; }

constexpr float kInfinity = __builtin_inff();

}  // namespace
}  // namespace volley::core
