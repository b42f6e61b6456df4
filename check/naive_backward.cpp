// SPDX-License-Identifier: BSD-3-Clause
//
// Naive gradients, one query head of one sequence at a time:
//
//   dS = P (keep dO.v - delta + dlse),  delta = dO.o,  dq = scale dS k,  dk = scale dS q,
//   dv = P keep dO
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
      sum(role) = HostTensor(VOLLEY_F32, instance[role].shape());
      sum(role).fill(0);
      if (role != Role::kDbias && role != Role::kDsink) continue;
      squares(role) = HostTensor(VOLLEY_F64, instance[role].shape());
      squares(role).fill(0);
    }
  }

  void add_head(int64_t n, int64_t h) {
    head_ = load_head(instance_, n, h);
    k_rows_.resize(static_cast<size_t>(head_.keys.used * c_.d));
    for (int64_t j = 0; j < head_.keys.used; ++j) {
      for (int64_t x = 0; x < c_.d; ++x) {
        k_rows_[static_cast<size_t>(j * c_.d + x)] =
            head_.k[static_cast<size_t>(x * head_.keys.used + j)];
      }
    }
    dk_.assign(static_cast<size_t>(head_.keys.used * c_.d), 0.0f);
    dv_.assign(static_cast<size_t>(head_.keys.used * c_.dv), 0.0f);
    dk_squares_.assign(static_cast<size_t>(head_.keys.used), 0.0);
    dv_squares_.assign(static_cast<size_t>(head_.keys.used), 0.0);
    for (int64_t i = 0; i < head_.queries.used; ++i) add_row(i);
    for (size_t j = 0; j < dk_squares_.size(); ++j) {
      note_rounding(Role::kDk, dk_squares_[j] * static_cast<double>(c_.group()));
      note_rounding(Role::kDv, dv_squares_[j] * static_cast<double>(c_.group()));
    }
    const int64_t key_head = h / c_.group();
    for (int64_t j = 0; j < head_.keys.used; ++j) {
      add_values(Role::kDk, j, key_head, dk_.data() + j * c_.d, c_.d);
      add_values(Role::kDv, j, key_head, dv_.data() + j * c_.dv, c_.dv);
    }
  }

  NaiveGradients finish() {
    NaiveGradients result;
    result.max_logit = max_logit_;
    for (const Role role : {Role::kDbias, Role::kDsink}) {
      for (int64_t i = 0; i < squares(role).size(); ++i) note_rounding(role, squares(role).flat(i));
    }
    for (size_t role = 0; role < core::kRoleCount; ++role) {
      result.rounding[role] = {rounding_[role], rounding_[role]};
    }
    for (const core::RoleInfo& info : core::kRoles) {
      const HostTensor& sums = sum(info.role);
      if (!sums.present()) continue;
      HostTensor& rounded = result.tensors[static_cast<size_t>(info.role)];
      HostTensor start(VOLLEY_F32, sums.shape());
      start.fill(0);
      if (c_.accumulate) start_values(c_, info.role, &start);
      rounded = HostTensor(instance_[info.role].dtype(), sums.shape());
      for (int64_t i = 0; i < rounded.size(); ++i) {
        rounded.set_flat(i, start.flat(i) + sums.flat(i));
      }
    }
    return result;
  }

 private:
  HostTensor& squares(Role role) { return squares_[static_cast<size_t>(role)]; }
  HostTensor& sum(Role role) { return sums_[static_cast<size_t>(role)]; }

  float read(Role role, int64_t row, int64_t h, int64_t x) const {
    return static_cast<float>(instance_[role].at(instance_.index(role, head_.n, row, h, x)));
  }

  void add(Role role, const Index& index, float value) {
    sum(role).set(index, static_cast<float>(sum(role).at(index)) + value);
  }

  void add_values(Role role, int64_t row, int64_t h, const float* values, int64_t count) {
    for (int64_t x = 0; x < count; ++x) {
      add(role, instance_.index(role, head_.n, row, h, x), values[x]);
    }
  }

  void add_row(int64_t i) {
    const NaiveRow row = naive_row(instance_, head_, i);
    max_logit_ = std::max(max_logit_, row.max_logit);
    const auto lse = static_cast<float>(instance_.lse_at(head_.n, head_.h, i));
    if (lse == kMinusInfinity) return;
    const auto width = static_cast<size_t>(c_.dv);
    std::vector<float> dout(width);
    float shift = lse_gradient(i);
    double terms = 0;
    for (size_t x = 0; x < width; ++x) {
      dout[x] = round_to(c_.dtype, read(Role::kDout, i, head_.h, static_cast<int64_t>(x)));
      const float term = dout[x] * read(Role::kO, i, head_.h, static_cast<int64_t>(x));
      shift -= term;
      terms += std::abs(term);
    }
    if (sum(Role::kDsink).present()) {
      const float weight = std::exp(sink_of(instance_, head_) - lse);
      add(Role::kDsink, {{head_.h}, 1}, weight * shift);
      add_square(Role::kDsink, {{head_.h}, 1}, weight * terms);
    }
    std::vector<float> dq(static_cast<size_t>(c_.d), 0.0f);
    double dq_square = 0;
    for (int64_t j = 0; j < head_.keys.used; ++j) {
      const float p = std::exp(row.logit[static_cast<size_t>(j)] - lse);
      if (p != 0) dq_square += add_pair(i, j, p, shift, terms, row, dout, dq.data());
    }
    add_values(Role::kDq, i, head_.h, dq.data(), c_.d);
    note_rounding(Role::kDq, dq_square);
  }

  float lse_gradient(int64_t i) const {
    const HostTensor& dlse = instance_[Role::kDlse];
    if (!dlse.present()) return 0;
    return static_cast<float>(c_.cu_q.empty()
                                  ? dlse.at({head_.n, head_.h, i})
                                  : dlse.at({head_.h, query_span(c_, head_.n).begin + i}));
  }

  // terms: the sum of |dO * o|. Returns the square of what roundings here add to dq.
  double add_pair(int64_t i, int64_t j, float p, float shift, double terms, const NaiveRow& row,
                  const std::vector<float>& dout, float* dq) {
    const float keep = row.keep[static_cast<size_t>(j)];
    const float* v = head_.v.data() + j * c_.dv;
    float* dv = dv_.data() + j * c_.dv;
    const float weight = round_to(c_.dtype, p) * keep;
    float dp = 0;
    float dout_most = 0;
    for (int64_t x = 0; x < c_.dv; ++x) {
      dp += dout[static_cast<size_t>(x)] * v[x];
      terms += std::abs(keep * dout[static_cast<size_t>(x)] * v[x]);
      dout_most = std::max(dout_most, std::abs(dout[static_cast<size_t>(x)]));
      dv[x] += weight * dout[static_cast<size_t>(x)];
    }
    const float ds = p * (keep * dp + shift);
    if (sum(Role::kDbias).present()) add(Role::kDbias, bias_index(i, j), ds);
    const float rounded_ds = round_to(c_.dtype, ds * row.slope[static_cast<size_t>(j)]);
    const float scaled = naive_scale(c_) * rounded_ds;
    const float* q = head_.q.data() + i * c_.d;
    const float* k = k_rows_.data() + j * c_.d;
    float* dk = dk_.data() + j * c_.d;
    float q_most = 0;
    float k_most = 0;
    for (int64_t x = 0; x < c_.d; ++x) {
      dq[x] += scaled * k[x];
      dk[x] += scaled * q[x];
      q_most = std::max(q_most, std::abs(q[x]));
      k_most = std::max(k_most, std::abs(k[x]));
    }
    const double p_error = 1 + std::abs(row.logit[static_cast<size_t>(j)]);  // relative
    const double ds_error = p * (terms + p_error * std::abs(keep * dp + shift));
    if (sum(Role::kDbias).present()) add_square(Role::kDbias, bias_index(i, j), ds_error);
    const double error = ds_error * naive_scale(c_) * row.slope[static_cast<size_t>(j)];
    dk_squares_[static_cast<size_t>(j)] += square(error * q_most);
    dv_squares_[static_cast<size_t>(j)] += square(p_error * weight * dout_most);
    return square(error * k_most);
  }

  static double square(double x) { return x * x; }

  void add_square(Role role, const Index& index, double error) {
    squares(role).set(index, squares(role).at(index) + square(error));
  }

  void note_rounding(Role role, double squares) {
    double& most = rounding_[static_cast<size_t>(role)];
    most = std::max(most, 0x1p-23 * std::sqrt(squares));
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
  std::vector<float> k_rows_;   // of the head at hand, (sk, d)
  std::vector<float> dk_, dv_;  // its sums
  std::array<HostTensor, core::kRoleCount> sums_;
  // Squares of what roundings may add, each summed like its gradient: of a key, of dbias and dsink.
  std::vector<double> dk_squares_, dv_squares_;
  std::array<HostTensor, core::kRoleCount> squares_;
  double max_logit_ = 0;
  std::array<double, core::kRoleCount> rounding_{};
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
