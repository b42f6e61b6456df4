// SPDX-License-Identifier: BSD-3-Clause
//
// The reference backend: the contract as code, in float64, written for reading. It is the oracle
// that every other backend is tested against. This file is the forward and the Backend; what a row
// sees and its softmax are in reference_row.h, the gradients in reference_backward.cpp.
//
//   lse_i = log(sum_j exp(logit_ij) + exp(sink))
//   o_i   = sum_j P_ij keep_ij v_j,  P_ij = exp(logit_ij - lse_i)
#include "cpu/reference.h"

#include <algorithm>
#include <cmath>

#include "cpu/contents.h"
#include "cpu/reference_row.h"
#include "cpu/thread_pool.h"

namespace volley::core {
namespace {

// What the forward keeps in float64: keys and values of one key head, and a row for each worker.
struct ForwardScratch {
  ForwardScratch(const Problem& problem, int64_t sk, int threads)
      : k(sk, problem.d),
        v(sk, problem.dv),
        q(threads, problem.d),
        o(threads, problem.dv),
        qk(threads, sk),
        logits(threads, sk) {}

  Rows k, v;
  Rows q, o, qk, logits;
};

void attend_row(const Problem& problem, const Buffers& buffers, const Head& head, int64_t i,
                int worker, ForwardScratch* scratch) {
  double* q = scratch->q[worker];
  double* o = scratch->o[worker];
  double* logits = scratch->logits[worker];
  head.load_row(Role::kQ, i, q);
  const Softmax softmax = softmax_of_row(head, i, q, scratch->k, scratch->qk[worker], logits);

  // A NaN in the sum is also that of a sink of NaN or +inf, in rows that see no key too.
  std::fill_n(o, problem.dv, std::isnan(softmax.sum) ? softmax.sum : 0.0);
  for (int64_t j = head.first_key(i); j < head.last_key(i); ++j) {
    if (logits[j] == kUnseen) continue;
    add_scaled(softmax.weight(logits[j]) * head.keep(i, j), scratch->v[j], o, problem.dv);
  }

  const Sequence& sequence = head.sequence();
  const View out = view_of(problem, buffers, Role::kO);
  for (int64_t e = 0; e < problem.dv; ++e) {
    out.set(o[e], sequence.batch, sequence.q_begin + i, head.h(), e);
  }
  if (const View lse = view_of(problem, buffers, Role::kLse); lse.present()) {
    lse.set(softmax.lse(), sequence.batch, head.h(), sequence.q_begin + i);
  }
}

// The features table says what is offered; nothing about geometry is refused. Waking a thread takes
// as long as some 2^18 multiply-adds, so small problems stay on the calling one.
Status plan_reference(Plan* plan) {
  const Problem& problem = plan->problem;
  VOLLEY_TRY(resolve_threads(problem.num_threads, &plan->config.threads));
  const double rows = static_cast<double>(problem.hq) *
                      static_cast<double>(problem[Role::kQ].shape[0] * problem[Role::kQ].shape[1]);
  const double work =
      rows * static_cast<double>(problem.max_sk) * static_cast<double>(problem.d + problem.dv);
  plan->config.threads = static_cast<int32_t>(
      std::clamp(work / 0x1p18, 1.0, static_cast<double>(plan->config.threads)));
  plan->config.name = "float64, naive";
  plan->config.grid = problem.b * problem.hq;
  return {};
}

Status prepare_reference(Plan*) { return {}; }

Status run_reference(const Plan& plan, const Buffers& buffers, Workspace, void*) {
  VOLLEY_TRY(check_contents(plan.problem, buffers));
  if (plan.problem.writes_nothing()) return {};
  return plan.problem.op == VOLLEY_OP_FORWARD ? reference_forward(plan, buffers)
                                              : reference_backward(plan, buffers);
}

}  // namespace

Longest longest_of(const Problem& problem, const Buffers& buffers) {
  Longest longest;
  for (int64_t n = 0; n < problem.b; ++n) {
    const Sequence sequence = sequence_at(problem, lengths_of(buffers), n);
    longest.sq = std::max(longest.sq, sequence.sq);
    longest.sk = std::max(longest.sk, sequence.sk);
  }
  return longest;
}

Status reference_forward(const Plan& plan, const Buffers& buffers) {
  const Problem& problem = plan.problem;
  const int threads = plan.config.threads;
  ForwardScratch scratch(problem, longest_of(problem, buffers).sk, threads);
  std::vector<Head> heads;  // the query heads of one key head
  heads.reserve(static_cast<size_t>(problem.group()));

  // Rows that no sequence uses keep what an empty row has.
  fill(view_of(problem, buffers, Role::kO), 0);
  fill(view_of(problem, buffers, Role::kLse), kUnseen);

  for (int64_t n = 0; n < problem.b; ++n) {
    for (int64_t key_head = 0; key_head < problem.hk; ++key_head) {
      heads_of(problem, buffers, n, key_head, &heads);
      if (heads.empty()) continue;
      const Sequence& sequence = heads.front().sequence();
      parallel_for(sequence.sk, threads, [&](int64_t j, int) {
        heads.front().load_row(Role::kK, j, scratch.k[j]);
        heads.front().load_row(Role::kV, j, scratch.v[j]);
      });
      parallel_for(problem.group() * sequence.sq, threads, [&](int64_t task, int worker) {
        const Head& head = heads[static_cast<size_t>(task / sequence.sq)];
        attend_row(problem, buffers, head, task % sequence.sq, worker, &scratch);
      });
    }
  }
  return {};
}

Backend reference_backend() {
  return {VOLLEY_BACKEND_REFERENCE, VOLLEY_DEVICE_CPU, true,
          plan_reference,           prepare_reference, run_reference};
}

}  // namespace volley::core
