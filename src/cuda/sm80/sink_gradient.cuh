// SPDX-License-Identifier: BSD-3-Clause
//
// dsink: a sum over all rows in use of a head, of all sequences, in a fixed order. It depends on
// lse and delta alone. Formulas: docs/contract.md.
#pragma once

#include "cuda/common/row_end.cuh"
#include "cuda/common/sequence.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/sm80/query_gradients.h"

namespace volley::cuda::v2 {

// What one row adds. The sink of a row that sees no key has all of its weight: its dO does not
// matter then, and delta may be anything.
__device__ __forceinline__ float sink_term(const DsinkParams& p, int batch, int head, i64 row,
                                           float sink) {
  const float lse =
      p.lse[batch * p.lse_stride.batch + head * p.lse_stride.head + row * p.lse_stride.row];
  if (lse == sink) {
    if (p.dlse == nullptr) return 0.f;
    return p
        .dlse[batch * p.dlse_stride.batch + head * p.dlse_stride.head + row * p.dlse_stride.row];
  }
  return ptx::exp2((sink - lse) * kLog2e) *
         -p.delta[(i64{batch} * p.heads + head) * p.query_rows + row];
}

// The thread's part of a head's sum. An element of fp64 takes any number of rows.
__device__ __forceinline__ double sum_terms(const DsinkParams& p, int head, float sink) {
  double sum = 0;
  if (sink == -kInfinity) return sum;
  for (int n = 0; n < p.lengths.batch; ++n) {
    const Sequence s = read_sequence(p, n);
    const int batch = p.lengths.cu_q != nullptr ? 0 : n;
    for (int row = static_cast<int>(threadIdx.x); row < s.sq; row += kDsinkThreads) {
      sum += static_cast<double>(sink_term(p, batch, head, i64{s.q_base} + row, sink));
    }
  }
  return sum;
}

// The kernel. A CTA takes head after head. Threads: kDsinkThreads, shared memory: kDsinkShared.
__device__ __forceinline__ void sink_gradient(const DsinkParams& p) {
  auto* const parts = reinterpret_cast<double*>(ptx::dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x);
  for (int head = static_cast<int>(blockIdx.x); head < p.heads;
       head += static_cast<int>(gridDim.x)) {
    parts[thread] = sum_terms(p, head, read_sink(p, head));
    for (int half = kDsinkThreads / 2; half > 0; half /= 2) {
      ptx::sync_cta();
      if (thread < half) parts[thread] += parts[thread + half];
    }
    if (thread == 0) {
      float& to = p.dsink[head * p.dsink_stride];
      to = static_cast<float>(parts[0] + (p.accumulate != 0 ? static_cast<double>(to) : 0.));
    }
    ptx::sync_cta();  // the last head's parts are read
  }
}

}  // namespace volley::cuda::v2
