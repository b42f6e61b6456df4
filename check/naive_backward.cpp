// SPDX-License-Identifier: BSD-3-Clause
//
// Naive gradients, one query head of one sequence at a time:
//
//   dS = P (dO.v - delta + dlse),  delta = dO.o,  dq = scale dS k,  dk = scale dS q,  dv = P dO
#include <algorithm>

#include "naive.h"
#include "naive_row.h"

namespace volley::check {
namespace {

class Backward {
 public:
  explicit Backward(const Instance& instance) : instance_(instance), c_(instance.c) {
    for (const Role role : {Role::kDq, Role::kDk, Role::kDv, Role::kDbias, Role::kDsink}) {
      if (!instance[role].present()) continue;
      sums_[static_cast<size_t>(role)] = HostTensor(VOLLEY_F32, instance[role].shape());
      sum(role).fill(0);
    }
  }

  void add_head(int64_t n, int64_t h) {
    head_ = load_head(instance_, n, h);
    for (int64_t i = 0; i < head_.queries.used; ++i) add_row(i);
  }

  NaiveGradients finish() {
    NaiveGradients result;
    result.max_logit = max_logit_;
    for (size_t role = 0; role < core::kRoleCount; ++role) {
      if (!sums_[role].present()) continue;
      HostTensor& rounded = result.tensors[role];
      rounded = HostTensor(instance_.tensors[role].dtype(), sums_[role].shape());
      for (int64_t i = 0; i < rounded.size(); ++i) rounded.set_flat(i, sums_[role].flat(i));
    }
    return result;
  }

 private:
  HostTensor& sum(Role role) { return sums_[static_cast<size_t>(role)]; }

  float read(Role role, int64_t row, int64_t h, int64_t x) const {
    return static_cast<float>(instance_[role].at(instance_.index(role, head_.n, row, h, x)));
  }

  void add(Role role, const Index& index, float value) {
    sum(role).set(index, static_cast<float>(sum(role).at(index)) + value);
  }

  void add_row(int64_t i) {
    const NaiveRow row = naive_row(instance_, head_, i);
    max_logit_ = std::max(max_logit_, row.max_logit);
    const auto lse = static_cast<float>(instance_.lse_at(head_.n, head_.h, i));
    if (lse == kMinusInfinity) return;
    const auto width = static_cast<size_t>(c_.dv);
    std::vector<float> dout(width);
    float shift = lse_gradient(i);
    for (size_t x = 0; x < width; ++x) {
      dout[x] = read(Role::kDout, i, head_.h, static_cast<int64_t>(x));
      shift -= dout[x] * read(Role::kO, i, head_.h, static_cast<int64_t>(x));
    }
    if (sum(Role::kDsink).present()) {
      const float weight = std::exp(sink_of(instance_, head_) - lse);
      add(Role::kDsink, {{head_.h}, 1}, weight * shift);
    }
    for (int64_t j = 0; j < head_.keys.used; ++j) {
      const float p = std::exp(row.logit[static_cast<size_t>(j)] - lse);
      if (p != 0) add_pair(i, j, p, shift, row.slope[static_cast<size_t>(j)], dout);
    }
  }

  float lse_gradient(int64_t i) const {
    const HostTensor& dlse = instance_[Role::kDlse];
    if (!dlse.present()) return 0;
    return static_cast<float>(c_.cu_q.empty()
                                  ? dlse.at({head_.n, head_.h, i})
                                  : dlse.at({head_.h, query_span(c_, head_.n).begin + i}));
  }

  void add_pair(int64_t i, int64_t j, float p, float shift, float slope,
                const std::vector<float>& dout) {
    const int64_t key_head = head_.h / c_.group();
    const float* v = head_.v.data() + j * c_.dv;
    const float rounded_p = round_to(c_.dtype, p);
    float dp = 0;
    for (int64_t x = 0; x < c_.dv; ++x) {
      dp += dout[static_cast<size_t>(x)] * v[x];
      add(Role::kDv, instance_.index(Role::kDv, head_.n, j, key_head, x),
          rounded_p * dout[static_cast<size_t>(x)]);
    }
    const float ds = p * (dp + shift);
    if (sum(Role::kDbias).present()) add(Role::kDbias, bias_index(i, j), ds);
    const float rounded_ds = round_to(c_.dtype, ds * slope);
    const float scaled = naive_scale(c_) * rounded_ds;
    for (int64_t x = 0; x < c_.d; ++x) {
      const float q = head_.q[static_cast<size_t>(i * c_.d + x)];
      const float k = head_.k[static_cast<size_t>(x * head_.keys.used + j)];
      add(Role::kDq, instance_.index(Role::kDq, head_.n, i, head_.h, x), scaled * k);
      add(Role::kDk, instance_.index(Role::kDk, head_.n, j, key_head, x), scaled * q);
    }
  }

  Index bias_index(int64_t i, int64_t j) const {
    Index index{{head_.n, head_.h, i, j}, 4};
    const std::vector<int64_t> shape = instance_[Role::kDbias].shape();
    for (size_t axis = 0; axis < 4; ++axis) {
      if (shape[axis] == 1) index.axes[axis] = 0;
    }
    return index;
  }

  const Instance& instance_;
  const Case& c_;
  NaiveHead head_;
  std::array<HostTensor, core::kRoleCount> sums_;
  double max_logit_ = 0;
};

}  // namespace

NaiveGradients naive_backward(const Instance& instance) {
  Backward backward(instance);
  for (int64_t n = 0; n < instance.c.b; ++n) {
    for (int64_t h = 0; h < instance.c.hq; ++h) backward.add_head(n, h);
  }
  return backward.finish();
}

}  // namespace volley::check
