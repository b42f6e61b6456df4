// SPDX-License-Identifier: BSD-3-Clause
//
// The gradients of the contract, in float64. With L a function of o and lse, dO = dL/do and
// dlse = dL/dlse:
//
//   dP_ij    = keep_ij (dO_i . v_j)
//   delta_i  = sum_j P_ij dP_ij
//   dS_ij    = P_ij (dP_ij - delta_i + dlse_i)       the gradient of logit_ij, and of the bias
//   dq_i     = sum_j dS_ij slope_ij k_j              slope_ij = d logit_ij / d (q_i . k_j)
//   dk_j     = sum_i dS_ij slope_ij q_i
//   dv_j     = sum_i P_ij keep_ij dO_i
//   dsink    = sum_i P_i,sink (dlse_i - delta_i)
//
// P is computed again from q and k, with the row's own maximum and sum: the o and lse that a caller
// passes, rounded as they are, are not used here, though faster backends need them.
#include <algorithm>
#include <vector>

#include "cpu/contents.h"
#include "cpu/reference.h"
#include "cpu/reference_row.h"
#include "cpu/thread_pool.h"

namespace volley::core {
namespace {

// What the gradients need to know of a query row.
struct RowState {
  Softmax softmax;
  double shift = 0;  // dlse_i - delta_i
};

// The gradients at one pair of query and key.
struct Pair {
  double weight;  // P_ij keep_ij
  double ds;      // dS_ij
  double dqk;     // dS_ij slope_ij
};

Pair pair_at(const Head& head, const RowState& row, int64_t i, int64_t j, double qk, double logit,
             double dout_v) {
  const double keep = head.keep(i, j);
  const double p = row.softmax.weight(logit);
  const double ds = p * (keep * dout_v + row.shift);
  return {p * keep, ds, ds * head.logit_slope(qk)};
}

// Writes a gradient, or adds it to what is there, rounding once.
template <class... Index>
void put(const View& view, bool accumulate, double value, Index... index) {
  view.set(accumulate ? view.at(index...) + value : value, index...);
}

// A zeroed float64 twin of a gradient to which more than one row or pair adds: dbias, where the
// bias broadcasts, and dk and dv, where sequences share pages. Rounded once, in the end.
class Sums {
 public:
  explicit Sums(const Tensor& gradient) : tensor_(gradient) {
    if (!gradient.present) return;
    tensor_.dtype = VOLLEY_F64;
    int64_t size = 1;
    for (int32_t axis = 3; axis >= 0; --axis) {
      tensor_.stride[axis] = tensor_.shape[axis] > 1 ? size : 0;
      size *= tensor_.shape[axis];
    }
    values_.assign(static_cast<size_t>(size), 0.0);
  }

  void add(double value, int64_t a, int64_t b, int64_t c, int64_t d) {
    put(View{&tensor_, values_.data()}, true, value, a, b, c, d);
  }

  // Writes every element, or adds it to what is there.
  void write(const View& gradient, bool accumulate) const {
    if (!gradient.present()) return;
    const auto& shape = tensor_.shape;
    size_t next = 0;
    for (int64_t a = 0; a < shape[0]; ++a) {
      for (int64_t b = 0; b < shape[1]; ++b) {
        for (int64_t c = 0; c < shape[2]; ++c) {
          for (int64_t d = 0; d < shape[3]; ++d) {
            put(gradient, accumulate, values_[next++], a, b, c, d);
          }
        }
      }
    }
  }

 private:
  Tensor tensor_;
  std::vector<double> values_;
};

class Backward {
 public:
  Backward(const Plan& plan, const Buffers& buffers, Longest longest);
  void run();

 private:
  void key_head(int64_t n, int64_t key_head);
  void load();
  void query_row(const Head& head, int64_t i, int worker);
  void key_row(int64_t j, int worker);
  void put_key_row(Role role, Sums* shared, int64_t j, const double* values);
  void sink_rows();
  void bias_pairs();

  View view(Role role) const { return view_of(problem_, buffers_, role); }
  RowState& state_of(int64_t row) { return rows_[static_cast<size_t>(row)]; }
  int64_t row_of(const Head& head, int64_t i) const {
    return (head.h() - heads_.front().h()) * head.sequence().sq + i;
  }

  const Problem& problem_;
  const Buffers& buffers_;
  const int threads_;

  // The query heads of the key head at hand, and all its operands: row_of(head, i) and j.
  std::vector<Head> heads_;
  Rows q_, dout_, k_, v_;
  std::vector<RowState> rows_;

  Rows qk_, logits_, dout_v_, dq_, dk_, dv_;  // a row for each worker
  std::vector<double> dsink_;
  Sums dbias_;
  Sums shared_dk_, shared_dv_;  // paged keys only
};

Backward::Backward(const Plan& plan, const Buffers& buffers, Longest longest)
    : problem_(plan.problem),
      buffers_(buffers),
      threads_(plan.config.threads),
      q_(problem_.group() * longest.sq, problem_.d),
      dout_(problem_.group() * longest.sq, problem_.dv),
      k_(longest.sk, problem_.d),
      v_(longest.sk, problem_.dv),
      rows_(static_cast<size_t>(problem_.group() * longest.sq)),
      qk_(threads_, longest.sk),
      logits_(threads_, longest.sk),
      dout_v_(threads_, longest.sk),
      dq_(threads_, problem_.d),
      dk_(threads_, problem_.d),
      dv_(threads_, problem_.dv),
      dsink_(static_cast<size_t>(problem_.hq)),
      dbias_(problem_[Role::kDbias]),
      shared_dk_(problem_.page > 0 ? problem_[Role::kDk] : Tensor{}),
      shared_dv_(problem_.page > 0 ? problem_[Role::kDv] : Tensor{}) {
  heads_.reserve(static_cast<size_t>(problem_.group()));
}

void Backward::run() {
  const bool accumulate = problem_.accumulate_grads;
  if (!accumulate) {
    for (const Role role : {Role::kDq, Role::kDk, Role::kDv}) fill(view(role), 0);
  }
  for (int64_t n = 0; n < problem_.b; ++n) {
    for (int64_t h = 0; h < problem_.hk; ++h) key_head(n, h);
  }
  if (const View dsink = view(Role::kDsink); dsink.present()) {
    for (int64_t h = 0; h < problem_.hq; ++h) {
      put(dsink, accumulate, dsink_[static_cast<size_t>(h)], h);
    }
  }
  dbias_.write(view(Role::kDbias), accumulate);
  if (problem_.page > 0) {
    shared_dk_.write(view(Role::kDk), accumulate);
    shared_dv_.write(view(Role::kDv), accumulate);
  }
}

// Query rows first, since the sums over them need each row's state. What sums over sequences and
// heads too, dsink, dbias and the rows of pages, is added up by one thread.
void Backward::key_head(int64_t n, int64_t key_head) {
  heads_of(problem_, buffers_, n, key_head, &heads_);
  if (heads_.empty()) return;
  load();
  const Sequence& sequence = heads_.front().sequence();
  parallel_for(problem_.group() * sequence.sq, threads_, [&](int64_t task, int worker) {
    query_row(heads_[static_cast<size_t>(task / sequence.sq)], task % sequence.sq, worker);
  });
  const int key_threads = problem_.page > 0 ? 1 : threads_;
  parallel_for(sequence.sk, key_threads, [&](int64_t j, int worker) { key_row(j, worker); });
  if (problem_.has(Role::kDsink)) sink_rows();
  if (problem_.has(Role::kDbias)) bias_pairs();
}

void Backward::load() {
  const Sequence& sequence = heads_.front().sequence();
  for (int64_t j = 0; j < sequence.sk; ++j) {
    heads_.front().load_row(Role::kK, j, k_[j]);
    heads_.front().load_row(Role::kV, j, v_[j]);
  }
  for (const Head& head : heads_) {
    for (int64_t i = 0; i < sequence.sq; ++i) {
      head.load_row(Role::kQ, i, q_[row_of(head, i)]);
      head.load_row(Role::kDout, i, dout_[row_of(head, i)]);
    }
  }
}

// The row's softmax and delta for later, and its dq.
void Backward::query_row(const Head& head, int64_t i, int worker) {
  const Sequence& sequence = head.sequence();
  const int64_t r = row_of(head, i);
  const int64_t first = head.first_key(i);
  const int64_t last = head.last_key(i);
  double* qk = qk_[worker];
  double* logits = logits_[worker];
  double* dout_v = dout_v_[worker];

  RowState& row = state_of(r);
  row.softmax = softmax_of_row(head, i, q_[r], k_, qk, logits);
  row.shift = 0;
  if (const View dlse = view(Role::kDlse); dlse.present()) {
    row.shift = dlse.at(sequence.batch, head.h(), sequence.q_begin + i);
  }
  for (int64_t j = first; j < last; ++j) {
    if (logits[j] == kUnseen) continue;
    dout_v[j] = dot(dout_[r], v_[j], problem_.dv);
    row.shift -= row.softmax.weight(logits[j]) * head.keep(i, j) * dout_v[j];
  }

  double* dq = dq_[worker];
  std::fill_n(dq, problem_.d, 0.0);
  for (int64_t j = first; j < last; ++j) {
    if (logits[j] == kUnseen) continue;
    add_scaled(pair_at(head, row, i, j, qk[j], logits[j], dout_v[j]).dqk, k_[j], dq, problem_.d);
  }
  for (int64_t e = 0; e < problem_.d; ++e) {
    put(view(Role::kDq), problem_.accumulate_grads, dq[e], sequence.batch, sequence.q_begin + i,
        head.h(), e);
  }
}

// dk and dv of key j: sums over all rows of all query heads that see it.
void Backward::key_row(int64_t j, int worker) {
  const Sequence& sequence = heads_.front().sequence();
  double* dk = dk_[worker];
  double* dv = dv_[worker];
  std::fill_n(dk, problem_.d, 0.0);
  std::fill_n(dv, problem_.dv, 0.0);
  for (const Head& head : heads_) {
    for (int64_t i = 0; i < sequence.sq; ++i) {
      if (!head.sees(i, j)) continue;
      const int64_t r = row_of(head, i);
      const double qk = dot(q_[r], k_[j], problem_.d);
      const double logit = head.logit(i, j, qk);
      if (logit == kUnseen) continue;
      const Pair pair =
          pair_at(head, state_of(r), i, j, qk, logit, dot(dout_[r], v_[j], problem_.dv));
      add_scaled(pair.dqk, q_[r], dk, problem_.d);
      add_scaled(pair.weight, dout_[r], dv, problem_.dv);
    }
  }
  put_key_row(Role::kDk, &shared_dk_, j, dk);
  put_key_row(Role::kDv, &shared_dv_, j, dv);
}

// A row of a page may be a key of several sequences, or several times of one.
void Backward::put_key_row(Role role, Sums* shared, int64_t j, const double* values) {
  const Head& head = heads_.front();
  const Sequence& sequence = head.sequence();
  const View gradient = view(role);
  for (int64_t e = 0; e < gradient.tensor->shape[3]; ++e) {
    if (problem_.page > 0) {
      shared->add(values[e], head.page_of(j), j % problem_.page, head.key_head(), e);
    } else {
      put(gradient, problem_.accumulate_grads, values[e], sequence.batch_k, sequence.k_begin + j,
          head.key_head(), e);
    }
  }
}

void Backward::sink_rows() {
  for (const Head& head : heads_) {
    for (int64_t i = 0; i < head.sequence().sq && head.sink() != kUnseen; ++i) {
      const RowState& row = state_of(row_of(head, i));
      dsink_[static_cast<size_t>(head.h())] += row.softmax.weight(head.sink()) * row.shift;
    }
  }
}

void Backward::bias_pairs() {
  const Sequence& sequence = heads_.front().sequence();
  for (const Head& head : heads_) {
    for (int64_t i = 0; i < sequence.sq; ++i) {
      const int64_t r = row_of(head, i);
      for (int64_t j = head.first_key(i); j < head.last_key(i); ++j) {
        if (!head.sees(i, j)) continue;
        const double qk = dot(q_[r], k_[j], problem_.d);
        const double logit = head.logit(i, j, qk);
        if (logit == kUnseen) continue;
        const Pair pair =
            pair_at(head, state_of(r), i, j, qk, logit, dot(dout_[r], v_[j], problem_.dv));
        dbias_.add(pair.ds, head.n(), head.h(), i, j);
      }
    }
  }
}

}  // namespace

Status reference_backward(const Plan& plan, const Buffers& buffers) {
  Backward(plan, buffers, longest_of(plan.problem, buffers)).run();
  return {};
}

}  // namespace volley::core
