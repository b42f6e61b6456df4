// SPDX-License-Identifier: BSD-3-Clause
//
// What changes a score on its way to the softmax (softcap, bias, ALiBi, boolean mask) and a weight
// after it (dropout). Formulas: docs/contract.md.
#pragma once

#include "cuda/common/row_end.cuh"
#include "cuda/common/softmax.cuh"
#include "cuda/sm80/params.h"
#include "dropout.h"

namespace volley::cuda::v2 {

__device__ __forceinline__ i64 index(const Strides4& stride, int a, int b, int c, int d) {
  return a * stride.axis[0] + b * stride.axis[1] + c * stride.axis[2] + d * stride.axis[3];
}

__device__ __forceinline__ float read_number(const void* data, int type, i64 at) {
  if (type == kF32) return static_cast<const float*>(data)[at];
  const unsigned short bits = static_cast<const Bits16*>(data)[at].bits;
  return type == kBf16 ? ptx::from_bf16(bits) : ptx::from_f16(bits);
}

// Where a block of scores lies: of sequence `batch` and query head `head`, its first row and key.
struct Place {
  int batch, head;
  int sq, sk;
  int row, key;  // of the thread's first register
  bool relative;
};

// One score, in units of log2(e), from the product q.k of (row, key), both in use.
__device__ __forceinline__ float finish_score(const Extras& e, const Place& at, int row, int key,
                                              float slope_log2, float score) {
  if (e.bias != nullptr) {
    const i64 place = index(e.bias_stride, at.batch, at.head, row, key);
    score = fmaf(read_number(e.bias, e.bias_type, place), kLog2e, score);
  }
  if (e.slopes != nullptr) {
    const i64 own = row + (at.relative ? i64{at.sk} - at.sq : e.offset);
    const i64 distance = own > key ? own - key : key - own;
    score = fmaf(-slope_log2, static_cast<float>(distance), score);
  }
  const bool hidden =
      e.mask != nullptr && e.mask[index(e.mask_stride, at.batch, at.head, row, key)] == 0;
  return hidden ? -kInfinity : score;
}

template <int kCount>
__device__ __forceinline__ void cap_scores(const Extras& e, float (&s)[kCount]) {
  if (e.capped != 0) cap(s, e.cap_factor);
}

// s: products q.k, or with a softcap tanh(scale * q.k / cap) of them (cap_scores); become logits in
// units of log2(e). Threads: any; registers: s in place.
template <int kCount>
__device__ __forceinline__ void finish_scores(const Extras& e, const Place& at,
                                              float (&s)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) s[i] *= e.score_scale;
  if (e.bias == nullptr && e.slopes == nullptr && e.mask == nullptr) return;
  const float slope =
      e.slopes == nullptr
          ? 0.f
          : kLog2e * e.slopes[at.batch * e.slope_batch_stride + at.head * e.slope_head_stride];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int row = at.row + 8 * Accumulator::slot(i), key = at.key + Accumulator::col_offset(i);
    if (row < at.sq && key < at.sk) s[i] = finish_score(e, at, row, key, slope, s[i]);
  }
}

__device__ __forceinline__ core::PhiloxKey dropout_subkey(const Extras& e) {
  return core::dropout_key(*e.dropout_seed, e.dropout_offset == nullptr ? 0 : *e.dropout_offset);
}

// Drops weights. A thread's neighbouring two columns lie in one group of four keys.
// Threads: any; registers: p in place.
template <int kCount>
__device__ __forceinline__ void drop(const Extras& e, core::PhiloxKey subkey, const Place& at,
                                     float (&p)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    const int row = at.row + 8 * Accumulator::slot(i), key = at.key + Accumulator::col_offset(i);
    const core::PhiloxCounter words =
        core::dropout_words(subkey, static_cast<u32>(at.batch), static_cast<u32>(at.head),
                            static_cast<u32>(row), static_cast<u32>(key) / 4);
    const bool high = key % 4 != 0;
    if ((high ? words.word[2] : words.word[0]) < e.dropout_threshold) p[i] = 0.f;
    if ((high ? words.word[3] : words.word[1]) < e.dropout_threshold) p[i + 1] = 0.f;
  }
}

}  // namespace volley::cuda::v2
