// SPDX-License-Identifier: BSD-3-Clause
#include "sequence.h"

namespace volley::core {
namespace {

// Rows [begin, begin + count) of a packed axis, kept inside [0, total].
void packed_rows(const int32_t* cu, int64_t n, int64_t total, int64_t* begin, int64_t* count) {
  *begin = std::clamp<int64_t>(cu[n], 0, total);
  *count = std::clamp<int64_t>(cu[n + 1], *begin, total) - *begin;
}

}  // namespace

Sequence sequence_at(const Problem& problem, const Lengths& lengths, int64_t n) {
  Sequence s;
  const Tensor& q = problem[Role::kQ];
  const Tensor& k = problem[Role::kK];
  if (problem.packed_q) {
    packed_rows(lengths.cu_q, n, q.shape[1], &s.q_begin, &s.q_rows);
  } else {
    s.batch = n;
    s.q_rows = q.shape[1];
  }
  s.sq = std::min(s.q_rows, problem.max_sq);
  if (problem.packed_k) {
    packed_rows(lengths.cu_k, n, k.shape[1], &s.k_begin, &s.sk);
  } else if (problem.page > 0) {
    s.sk = problem.max_sk;
  } else {
    s.batch_k = n;
    s.sk = k.shape[1];
  }
  s.sk = std::min(s.sk, problem.max_sk);
  if (lengths.used_q != nullptr) s.sq = std::clamp<int64_t>(lengths.used_q[n], 0, s.sq);
  if (lengths.used_k != nullptr) s.sk = std::clamp<int64_t>(lengths.used_k[n], 0, s.sk);
  s.offset = problem.band.offset(s.sq, s.sk);
  return s;
}

}  // namespace volley::core
