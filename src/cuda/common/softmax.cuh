// SPDX-License-Identifier: BSD-3-Clause
//
// Online softmax over an accumulator fragment. A row is spread over the four threads of a quad;
// each thread follows the maximum of the whole row but only its own part of the sum.
//
// Numbers: P = 2^(s * scale - m * scale) with scale = softmax scale * log2(e), one FFMA and one
// EX2 an element. The FFMA subtracts the rounded m * scale, which is off by up to 2^-24 of itself;
// that is nothing beside P's own rounding unless logits are huge, and then m is subtracted first.
// A row that has seen no key has m = -infinity and sum 0. NaN never enters m; it reaches the sum
// and O by itself.
#pragma once

#include "cuda/common/layout.cuh"
#include "cuda/common/mask.cuh"

namespace volley::cuda {

// The thread's two rows. `maximum` is of s, `shift` is m * scale; both only ever move in softmax().
struct RowState {
  float maximum[2] = {-kInfinity, -kInfinity};
  float shift[2] = {0.f, 0.f};
  float sum[2] = {0.f, 0.f};
  bool huge = false;  // somewhere in the warp a shift is too large to be subtracted rounded
};

// Combines over the quad that shares a row. Threads: a whole warp.
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, ptx::shuffle_xor(x, 1));
  return fmaxf(x, ptx::shuffle_xor(x, 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += ptx::shuffle_xor(x, 1);
  return x + ptx::shuffle_xor(x, 2);
}

// The largest score of each row. Four chains a row hide the latency of a comparison.
template <int kCount>
__device__ __forceinline__ void row_max(const float (&s)[kCount], float (&top)[2]) {
  constexpr int kChains = 8;  // registers 0, 1, 4, 5 are row 0's, 2, 3, 6, 7 row 1's
  float chain[kChains];
#pragma unroll
  for (int i = 0; i < kChains; ++i) chain[i] = s[i];
#pragma unroll
  for (int i = kChains; i < kCount; ++i) chain[i % kChains] = fmaxf(chain[i % kChains], s[i]);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float low = fmaxf(chain[2 * r], chain[2 * r + 1]);
    const float high = fmaxf(chain[2 * r + 4], chain[2 * r + 5]);
    top[r] = quad_max(fmaxf(low, high));
  }
}

// Above this |m * scale| its rounding would show in P.
constexpr float kHugeLogit = 1024.f;

// Moves the maxima of a warp in which one has grown, and brings the sums along. `correction` is
// what the O accumulated so far must be multiplied by. Threads: a whole warp.
__device__ __forceinline__ void move_maxima(const float (&top)[2], const bool (&moves)[2],
                                            float scale, RowState& rows, float (&correction)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float maximum = moves[r] ? top[r] : rows.maximum[r];
    const float reference = maximum == -kInfinity ? 0.f : maximum;  // -inf - -inf would be NaN
    correction[r] = ptx::exp2((rows.maximum[r] - reference) * scale);
    rows.maximum[r] = maximum;
    rows.shift[r] = reference * scale;
    rows.sum[r] *= correction[r];
  }
  rows.huge = ptx::any(fmaxf(fabsf(rows.shift[0]), fabsf(rows.shift[1])) > kHugeLogit);
}

// One block: s becomes P and rows takes the block in. Returns whether a maximum of the warp has
// moved; O must then be multiplied by `correction`. With kLazy > 0 a maximum moves only once its
// logit has grown by more than kLazy, so P may reach 2^kLazy.
// Threads: a whole warp. Registers: s in place, 8 more.
template <int kLazy, int kCount>
__device__ __forceinline__ bool softmax(float (&s)[kCount], float scale, RowState& rows,
                                        float (&correction)[2]) {
  float top[2];
  row_max(s, top);
  bool moves[2];  // false if both are -infinity
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    moves[r] = (top[r] - rows.maximum[r]) * scale > static_cast<float>(kLazy);
  }
  const bool moved = ptx::any(moves[0] || moves[1]);
  if (moved) move_maxima(top, moves, scale, rows, correction);

  float shift[2] = {rows.shift[0], rows.shift[1]};
  if (rows.huge) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float maximum = rows.maximum[Accumulator::slot(i)];
      s[i] -= maximum == -kInfinity ? 0.f : maximum;
    }
    shift[0] = shift[1] = 0.f;
  }
  float even[2] = {0.f, 0.f}, odd[2] = {0.f, 0.f};
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    const int r = Accumulator::slot(i);
    s[i] = ptx::exp2(fmaf(s[i], scale, -shift[r]));
    s[i + 1] = ptx::exp2(fmaf(s[i + 1], scale, -shift[r]));
    even[r] += s[i];
    odd[r] += s[i + 1];
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) rows.sum[r] += even[r] + odd[r];
  return moved;
}

// P in 16 bits, as A fragments. Registers: half of s.
template <int kCount>
__device__ __forceinline__ void convert_p(const float (&s)[kCount], u32 (&p)[kCount / 2]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) p[i] = ptx::pack_bf16(s[2 * i], s[2 * i + 1]);
}

// O *= correction. Registers: o in place, not in flight.
template <int kCount>
__device__ __forceinline__ void rescale(float (&o)[kCount], const float (&correction)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) o[i] *= correction[Accumulator::slot(i)];
}

}  // namespace volley::cuda
