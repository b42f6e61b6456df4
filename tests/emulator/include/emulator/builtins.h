// SPDX-License-Identifier: BSD-3-Clause
//
// The words of CUDA that kernels use, for a host compiler. Included before everything else
// (-include), so that kernels compile as they are. Only what sm_80's kernels need: another word is
// a compiler error, and is then added here.
#pragma once

#include <math.h>  // fmaf, fminf, fmaxf, fabsf

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

namespace volley::emulator {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// Where the running CUDA thread is.
struct Indices {
  Index thread, block, block_size, grid_size;
};
const Indices& indices();

}  // namespace volley::emulator

#define threadIdx (::volley::emulator::indices().thread)
#define blockIdx (::volley::emulator::indices().block)
#define blockDim (::volley::emulator::indices().block_size)
#define gridDim (::volley::emulator::indices().grid_size)

constexpr int min(int a, int b) { return b < a ? b : a; }
constexpr int max(int a, int b) { return a < b ? b : a; }
constexpr unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
constexpr unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
constexpr long long min(long long a, long long b) { return b < a ? b : a; }
constexpr long long max(long long a, long long b) { return a < b ? b : a; }

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

constexpr uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
constexpr float2 make_float2(float x, float y) { return {x, y}; }
constexpr float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
