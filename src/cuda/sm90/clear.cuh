// SPDX-License-Identifier: BSD-3-Clause
//
// Rows of o and lse that no query in use owns: past a sequence's used length, and past the last
// sequence of packed tensors. They become O = 0, LSE = -infinity. Warps that would be idle do it.
#pragma once

#include "cuda/common/walk.cuh"

namespace volley::cuda {

// Rows `begin` to `end` - 1 of one batch, all heads. Threads: a whole warp.
__device__ __forceinline__ void clear_rows(const FwdParams& p, int batch, i64 begin, i64 end) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const i64 size = p.o_is_f32 != 0 ? 4 : 2;
  const i64 bytes = p.dv * size;  // a multiple of 16
  for (i64 row = begin; row < end; ++row) {
    for (int head = 0; head < p.heads; ++head) {
      char* const o =
          static_cast<char*>(p.o) +
          size * (batch * p.o_stride.batch + head * p.o_stride.head + row * p.o_stride.row);
      for (i64 at = lane * 16; at < bytes; at += 32 * 16) {
        *reinterpret_cast<uint4*>(o + at) = make_uint4(0, 0, 0, 0);
      }
      if (p.lse != nullptr && lane == 0) {
        p.lse[batch * p.lse_stride.batch + head * p.lse_stride.head + row * p.lse_stride.row] =
            -kInfinity;
      }
    }
  }
}

// Sequences and loose rows are dealt out to `workers` warps. Threads: a whole warp.
__device__ __forceinline__ void clear_unused_rows(const FwdParams& p, int worker, int workers) {
  const Lengths& l = p.lengths;
  const bool packed = l.cu_q != nullptr;
  if (l.used_q != nullptr) {
    for (int n = worker; n < l.batch; n += workers) {
      const Sequence s = read_sequence(p, n);
      clear_rows(p, packed ? 0 : n, i64{s.q_base} + s.sq, i64{s.q_base} + s.q_rows);
    }
  }
  if (packed) {
    const i64 owned = max(l.cu_q[l.batch], 0);
    for (i64 row = owned + worker; row < l.total_q; row += workers) {
      clear_rows(p, 0, row, row + 1);
    }
  }
}

}  // namespace volley::cuda
