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

// The thread's two rows. `maximum` is of s, before scaling.
struct RowState {
  float maximum[2] = {-kInfinity, -kInfinity};
  float sum[2] = {0.f, 0.f};
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

// The largest score of each row. Two chains a row keep the pipeline busy.
template <int kCount>
__device__ __forceinline__ void row_max(const float (&s)[kCount], float (&top)[2]) {
  float even[2] = {s[0], s[2]}, odd[2] = {s[1], s[3]};
#pragma unroll
  for (int i = 4; i < kCount; i += 2) {
    even[Accumulator::slot(i)] = fmaxf(even[Accumulator::slot(i)], s[i]);
    odd[Accumulator::slot(i)] = fmaxf(odd[Accumulator::slot(i)], s[i + 1]);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) top[r] = quad_max(fmaxf(even[r], odd[r]));
}

// Above this |m * scale| its rounding would show in P.
constexpr float kHugeLogit = 1024.f;

// One block: s becomes P, rows takes the block in, and `correction` is what the O accumulated so
// far must be multiplied by. With kLazy > 0 a maximum moves only once its logit has grown by more
// than kLazy, so P may reach 2^kLazy.
// Threads: a whole warp. Registers: s in place, 8 more.
template <int kLazy, int kCount>
__device__ __forceinline__ void softmax(float (&s)[kCount], float scale, RowState& rows,
                                        float (&correction)[2]) {
  float top[2], reference[2], shift[2];
  row_max(s, top);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const bool moves = (top[r] - rows.maximum[r]) * scale > static_cast<float>(kLazy);
    const float maximum = moves ? top[r] : rows.maximum[r];  // stays if both are -inf
    reference[r] = maximum == -kInfinity ? 0.f : maximum;    // -inf - -inf would be NaN
    correction[r] = ptx::exp2((rows.maximum[r] - reference[r]) * scale);
    shift[r] = reference[r] * scale;
    rows.maximum[r] = maximum;
  }
  if (ptx::any(fmaxf(fabsf(shift[0]), fabsf(shift[1])) > kHugeLogit)) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) s[i] -= reference[Accumulator::slot(i)];
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
  for (int r = 0; r < 2; ++r) rows.sum[r] = fmaf(rows.sum[r], correction[r], even[r] + odd[r]);
}

// P in 16 bits, as A fragments. Registers: half of s.
template <int kCount>
__device__ __forceinline__ void convert_p(const float (&s)[kCount], u32 (&p)[kCount / 2]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) p[i] = ptx::pack_bf16(s[2 * i], s[2 * i + 1]);
}

// O *= correction, skipped when no maximum in the warp has moved: the factors are then 1.
// Threads: a whole warp. Registers: o in place, not in flight.
template <int kCount>
__device__ __forceinline__ void rescale(float (&o)[kCount], const float (&correction)[2]) {
  if (!ptx::any(correction[0] != 1.f || correction[1] != 1.f)) return;
#pragma unroll
  for (int i = 0; i < kCount; ++i) o[i] *= correction[Accumulator::slot(i)];
}

}  // namespace volley::cuda
