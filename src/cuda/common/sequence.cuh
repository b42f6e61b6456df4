// SPDX-License-Identifier: BSD-3-Clause
//
// The rows of one sequence, from the length arrays of the call.
#pragma once

#include "cuda/params.h"

namespace volley::cuda {

// Where a sequence lies and how long it is.
struct Sequence {
  int q_base, q_rows, sq;  // first row; rows owned; rows used
  int k_base, sk;
};

// Whatever the arrays hold, rows stay within the tensors and lengths within what was planned for.
// Params has sq, sk and lengths.
template <class Params>
__device__ __forceinline__ Sequence read_sequence(const Params& p, int n) {
  const Lengths& l = p.lengths;
  Sequence s{0, p.sq, p.sq, 0, p.sk};
  if (l.cu_q != nullptr) {
    s.q_base = min(max(l.cu_q[n], 0), l.total_q);
    s.q_rows = max(min(l.cu_q[n + 1], l.total_q) - s.q_base, 0);
  }
  s.sq = min(s.q_rows, p.sq);
  if (l.used_q != nullptr) s.sq = min(max(l.used_q[n], 0), s.sq);
  if (l.cu_k != nullptr) {
    s.k_base = min(max(l.cu_k[n], 0), l.total_k);
    s.sk = min(max(min(l.cu_k[n + 1], l.total_k) - s.k_base, 0), p.sk);
  }
  if (l.used_k != nullptr) s.sk = min(max(l.used_k[n], 0), s.sk);
  return s;
}

}  // namespace volley::cuda
