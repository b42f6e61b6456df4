// SPDX-License-Identifier: BSD-3-Clause
//
// The end of a row: what O is multiplied by and the LSE, with or without a sink. Params has sink,
// sink_stride, sink_type and scale_log2.
#pragma once

#include "cuda/common/mask.cuh"
#include "cuda/ptx/core.cuh"

namespace volley::cuda {

constexpr float kLn2 = 0.693147180559945309f;
constexpr float kLog2e = 1.44269504088896341f;
constexpr float kLargestFloat = 0x1.fffffep127f;

// A sink of +infinity counts as NaN (docs/contract.md).
template <class Params>
__device__ __forceinline__ float read_sink(const Params& p, int head) {
  float sink;
  if (p.sink_type == kSinkF32) {
    sink = static_cast<const float*>(p.sink)[head * p.sink_stride];
  } else {
    const unsigned short bits = static_cast<const Bits16*>(p.sink)[head * p.sink_stride].bits;
    sink = p.sink_type == kSinkBf16 ? ptx::from_bf16(bits) : ptx::from_f16(bits);
  }
  return sink == kInfinity ? kInfinity - kInfinity : sink;
}

struct RowEnd {
  float factor;
  float lse;
};

// `sum` is the whole row's. A row without any key has sum 0: otherwise the largest P is about 1, or
// more. NaN goes on.
template <class Params>
__device__ __forceinline__ RowEnd end_row(const Params& p, int head, float sum, float maximum) {
  const bool empty = sum == 0.f;
  if (p.sink_type == kNoSink) {
    return {empty ? 0.f : ptx::reciprocal(sum),
            empty ? -kInfinity : fmaf(maximum, p.scale_log2, ptx::log2(sum)) * kLn2};
  }
  const float sink = read_sink(p, head);
  if (empty) return {sink == sink ? 0.f : sink, sink};
  const float shift = maximum * p.scale_log2;
  const float sink_log2 = fminf(sink * kLog2e, kLargestFloat);
  const float top = fmaxf(sink_log2, shift);  // not NaN's: it comes back with the sums
  const float weight = ptx::exp2(shift - top);
  const float total = fmaf(sum, weight, ptx::exp2(sink == sink ? sink_log2 - top : sink));
  return {weight * ptx::reciprocal(total), (top + ptx::log2(total)) * kLn2};
}

}  // namespace volley::cuda
