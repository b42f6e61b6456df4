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

#include "cuda/common/mask.cuh"
#include "cuda/ptx/core.cuh"

namespace volley::cuda {

// The thread's two rows. `maximum` is of s.
struct RowState {
  float maximum[2] = {-kInfinity, -kInfinity};
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

// The largest score of each row among the first kUsed registers. Four chains a row hide the latency
// of a comparison. Threads: a whole warp.
template <int kUsed, int kCount>
__device__ __forceinline__ void row_max(const float (&s)[kCount], float (&top)[2]) {
  constexpr int kChains = 8;  // registers 0, 1, 4, 5 are row 0's, 2, 3, 6, 7 row 1's
  float chain[kChains];
#pragma unroll
  for (int i = 0; i < kChains; ++i) chain[i] = s[i];
#pragma unroll
  for (int i = kChains; i < kUsed; ++i) chain[i % kChains] = fmaxf(chain[i % kChains], s[i]);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float low = fmaxf(chain[2 * r], chain[2 * r + 1]);
    const float high = fmaxf(chain[2 * r + 4], chain[2 * r + 5]);
    top[r] = quad_max(fmaxf(low, high));
  }
}

// What is subtracted from s for a row of this maximum. A row that has seen no key has only scores
// of -infinity, and -infinity less -infinity would be NaN.
__device__ __forceinline__ float reference(float maximum) {
  return maximum == -kInfinity ? 0.f : maximum;
}

// Above this |m * scale| its rounding would show in P.
constexpr float kHugeLogit = 1024.f;

__device__ __forceinline__ bool any_huge(const RowState& rows, float scale) {
  return ptx::any(fmaxf(fabsf(reference(rows.maximum[0])), fabsf(reference(rows.maximum[1]))) *
                      scale >
                  kHugeLogit);
}

// Moves the maxima of a warp in which one has grown, and brings the sums along. `correction` is
// what the O accumulated so far must be multiplied by. Threads: a whole warp.
__device__ __forceinline__ void move_maxima(const float (&top)[2], const bool (&moves)[2],
                                            float scale, RowState& rows, float (&correction)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float maximum = moves[r] ? top[r] : rows.maximum[r];
    correction[r] = ptx::exp2((rows.maximum[r] - reference(maximum)) * scale);
    rows.maximum[r] = maximum;
    rows.sum[r] *= correction[r];
  }
  rows.huge = any_huge(rows, scale);
}

// Takes a block's scores into the maxima. Returns whether a maximum of the warp has moved; O must
// then be multiplied by `correction`. A maximum moves only once its logit has grown by more than
// `growth`, so P may reach 2^growth. Threads: a whole warp.
template <int kCount>
__device__ __forceinline__ bool follow_maxima(const float (&s)[kCount], float scale, float growth,
                                              RowState& rows, float (&correction)[2]) {
  float top[2];
  row_max<kCount>(s, top);
  bool moves[2];  // false if both are -infinity
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    moves[r] = (top[r] - rows.maximum[r]) * scale > growth;
  }
  const bool moved = ptx::any(moves[0] || moves[1]);
  if (moved) move_maxima(top, moves, scale, rows, correction);
  return moved;
}

// Fresh rows, whose maxima are those of the first kColumns columns of s. Threads: a whole warp.
template <int kColumns, int kCount>
__device__ __forceinline__ RowState first_maxima(const float (&s)[kCount], float scale) {
  RowState rows;
  row_max<kColumns / 2>(s, rows.maximum);
  rows.huge = any_huge(rows, scale);
  return rows;
}

// s becomes P, and the sums take it in. Returns the larger of the thread's two parts of the block's
// sums. Threads: a whole warp. Registers: s in place, 8 more.
template <int kCount>
__device__ __forceinline__ float exponentiate(float (&s)[kCount], float scale, RowState& rows) {
  const float subtract[2] = {reference(rows.maximum[0]), reference(rows.maximum[1])};
  float shift[2] = {subtract[0] * scale, subtract[1] * scale};
  if (rows.huge) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) s[i] -= subtract[Accumulator::slot(i)];
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
  const float block[2] = {even[0] + odd[0], even[1] + odd[1]};
#pragma unroll
  for (int r = 0; r < 2; ++r) rows.sum[r] += block[r];
  return fmaxf(block[0], block[1]);
}

// Of P in fp16, with room to spare. No P of a thread is larger if its part of the block's sum is
// not.
constexpr float kLargestP = 0x1p15f;
// From here on the correction might vanish. Such a P spoils O instead, and the tile is repeated.
constexpr float kLargestMovable = 0x1p100f;

// Moves maxima that turn out to have been taken too low, after the fact: P, which is still finite
// in fp32, and the sums are brought along. `correction` is for O. A row whose P is too large to be
// moved is left as it is. Threads: a whole warp. Registers: p in place.
template <int kCount>
__device__ __forceinline__ void rebase(float (&p)[kCount], float scale, RowState& rows,
                                       float (&correction)[2]) {
  float top[2];
  row_max<kCount>(p, top);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float before = rows.maximum[r];
    const bool moves = top[r] > 1.f && top[r] < kLargestMovable;
    const float after = moves ? fmaf(ptx::log2(top[r]), ptx::reciprocal(scale), before) : before;
    correction[r] = !moves      ? 1.f
                    : rows.huge ? ptx::exp2((before - after) * scale)
                                : ptx::exp2(before * scale - after * scale);
    rows.maximum[r] = after;
    rows.sum[r] *= correction[r];
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) p[i] *= correction[Accumulator::slot(i)];
}

// s = tanh(x), x = s * factor / (2 log2(e)), good to 2^-20 of itself: by 1 - 2 / (1 + e^2x), and
// near 0, where that cancels, by its series.
template <int kCount>
__device__ __forceinline__ void cap(float (&s)[kCount], float factor) {
  constexpr float kHalfLn2 = 0.346573590279972655f;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float exponent = s[i] * factor;
    const float x = exponent * kHalfLn2;
    const float series = x * fmaf(x * x, fmaf(x * x, 2.f / 15, -1.f / 3), 1.f);
    const float far = fmaf(-2.f, ptx::reciprocal(1.f + ptx::exp2(exponent)), 1.f);
    s[i] = fabsf(x) < 0.1f ? series : far;
  }
}

// P in 16 bits, as A fragments. Registers: half of s.
template <Element kElement, int kCount>
__device__ __forceinline__ void convert_p(const float (&s)[kCount], u32 (&p)[kCount / 2]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) p[i] = ptx::pack<kElement>(s[2 * i], s[2 * i + 1]);
}

// O *= correction. Registers: o in place, not in flight.
template <int kCount>
__device__ __forceinline__ void rescale(float (&o)[kCount], const float (&correction)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) o[i] *= correction[Accumulator::slot(i)];
}

}  // namespace volley::cuda
