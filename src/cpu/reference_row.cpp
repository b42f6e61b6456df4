// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/reference_row.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/contents.h"

namespace volley::core {
namespace {

bool is_query_side(Role role) { return role == Role::kQ || role == Role::kDout; }

uint64_t read_u64(const Buffers& buffers, Role role) {
  uint64_t value = 0;
  if (buffers[role] != nullptr) std::memcpy(&value, buffers[role], sizeof value);
  return value;
}

}  // namespace

// Eight independent sums: compilers may not reorder one, but do vectorise these.
double dot(const double* a, const double* b, int64_t n) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (int64_t lane = 0; i < n; ++i, ++lane) sums[lane] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

void add_scaled(double factor, const double* x, double* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

Head::Head(const Problem& problem, const Buffers& buffers, int64_t n, int64_t h)
    : problem_(&problem),
      buffers_(&buffers),
      n_(n),
      h_(h),
      sequence_(sequence_at(problem, lengths_of(buffers), n)),
      bias_(view_of(problem, buffers, Role::kBias)),
      mask_(view_of(problem, buffers, Role::kMask)) {
  if (problem.has(Role::kAlibiSlopes)) {
    alibi_slope_ = view_of(problem, buffers, Role::kAlibiSlopes).at(n, h);
  }
  if (problem.has(Role::kSink)) sink_ = view_of(problem, buffers, Role::kSink).at(h);
  dropout_key_ =
      dropout_key(read_u64(buffers, Role::kDropoutSeed), read_u64(buffers, Role::kDropoutOffset));
}

void Head::load_row(Role role, int64_t row, double* out) const {
  const View view = view_of(*problem_, *buffers_, role);
  int64_t at = 0;
  if (is_query_side(role)) {
    at = view.offset(sequence_.batch, sequence_.q_begin + row, h_);
  } else if (problem_->page > 0) {
    at = view.offset(page_of(row), row % problem_->page, key_head());
  } else {
    at = view.offset(sequence_.batch_k, sequence_.k_begin + row, key_head());
  }
  const double scale = descale(role, row);
  const Tensor& tensor = *view.tensor;
  for (int64_t e = 0; e < tensor.shape[3]; ++e) {
    out[e] = scale * load_element(tensor.dtype, view.data, at + e * tensor.stride[3]);
  }
}

int64_t Head::page_of(int64_t row) const {
  const View table = view_of(*problem_, *buffers_, Role::kPageTable);
  return static_cast<int64_t>(table.at(n_, row / problem_->page));
}

// Blocks count from the first token of the sequence, or of the page, with which the scales travel.
double Head::descale(Role role, int64_t row) const {
  if (role == Role::kQ && problem_->has(Role::kQDescale)) {
    const View scales = view_of(*problem_, *buffers_, Role::kQDescale);
    const int64_t head = scales.tensor->shape[1] == problem_->hq ? h_ : key_head();
    return scales.at(n_, head, row / problem_->scale_block[0]);
  }
  if (role != Role::kK && role != Role::kV) return 1;
  const View scales =
      view_of(*problem_, *buffers_, role == Role::kK ? Role::kKDescale : Role::kVDescale);
  if (!scales.present()) return 1;
  const int64_t block = problem_->scale_block[role == Role::kK ? 1 : 2];
  if (problem_->page == 0) return scales.at(n_, key_head(), row / block);
  return scales.at(page_of(row), key_head(), row % problem_->page / block);
}

bool Head::sees(int64_t i, int64_t j) const {
  if (j < first_key(i) || j >= last_key(i)) return false;
  if (mask_.present() && mask_.at(n_, h_, i, j) == 0) return false;
  return !bias_.present() || bias_.at(n_, h_, i, j) != kUnseen;
}

double Head::logit(int64_t i, int64_t j, double qk) const {
  const double cap = problem_->softcap;
  double logit = problem_->scale * qk;
  if (cap > 0) logit = cap * std::tanh(logit / cap);
  if (bias_.present()) logit += bias_.at(n_, h_, i, j);
  if (problem_->has(Role::kAlibiSlopes)) {
    logit -= alibi_slope_ * std::abs(static_cast<double>(i + sequence_.offset - j));
  }
  return logit;
}

double Head::logit_slope(double qk) const {
  const double cap = problem_->softcap;
  if (cap == 0) return problem_->scale;
  const double t = std::tanh(problem_->scale * qk / cap);
  return problem_->scale * (1 - t * t);
}

double Head::keep(int64_t i, int64_t j) const {
  const double p = problem_->dropout_p;
  if (p == 0) return 1;
  const PhiloxCounter words =
      dropout_words(dropout_key_, static_cast<uint32_t>(n_), static_cast<uint32_t>(h_),
                    static_cast<uint32_t>(i), static_cast<uint32_t>(j / 4));
  return words.word[j % 4] >= dropout_threshold(p) ? 1 / (1 - p) : 0;
}

void heads_of(const Problem& problem, const Buffers& buffers, int64_t n, int64_t key_head,
              std::vector<Head>* out) {
  out->clear();
  for (int64_t g = 0; g < problem.group(); ++g) {
    out->emplace_back(problem, buffers, n, key_head * problem.group() + g);
  }
}

double Softmax::lse() const { return max + std::log(sum); }

double Softmax::weight(double logit) const {
  return logit == kUnseen ? 0 : std::exp(logit - max) / sum;
}

Softmax softmax_of_row(const Head& head, int64_t i, const double* q, const Rows& k, double* qk,
                       double* logits) {
  const int64_t first = head.first_key(i);
  const int64_t last = head.last_key(i);
  Softmax softmax;
  softmax.max = head.sink();
  for (int64_t j = first; j < last; ++j) {
    logits[j] = kUnseen;
    if (!head.sees(i, j)) continue;
    qk[j] = dot(q, k[j], k.width());
    logits[j] = head.logit(i, j, qk[j]);
    softmax.max = std::max(softmax.max, logits[j]);  // a NaN is skipped here and spoils the sum
  }
  const auto add = [&](double logit) {
    if (logit != kUnseen) softmax.sum += std::exp(logit - softmax.max);
  };
  for (int64_t j = first; j < last; ++j) add(logits[j]);
  add(head.sink());
  return softmax;
}

}  // namespace volley::core
