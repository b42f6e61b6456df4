// SPDX-License-Identifier: BSD-3-Clause
//
// Naive attention, one query head of one sequence at a time, each row at once. The loops run along
// keys or value columns so that compilers vectorise them without reordering a sum.
#include "naive.h"

#include <algorithm>
#include <limits>

#include "dtype.h"

namespace volley::check {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// One query head of one sequence, in fp32.
struct Head {
  int64_t n = 0;
  int64_t h = 0;
  Span queries;
  Span keys;
  std::vector<float> q;  // (sq, d)
  std::vector<float> k;  // (d, sk): transposed
  std::vector<float> v;  // (sk, dv)
};

double descale(const Instance& instance, Role role, const Head& head, int64_t row) {
  const HostTensor& t = instance[role];
  if (!t.present()) return 1;
  const Case& c = instance.c;
  const bool query = role == Role::kQDescale;
  const int64_t key_head = head.h / c.group();
  const int64_t h = query && t.shape()[1] == c.hq ? head.h : key_head;
  const int32_t rows_a_block = query                     ? instance.options.q_scale_block
                               : role == Role::kKDescale ? instance.options.k_scale_block
                                                         : instance.options.v_scale_block;
  if (query || c.page == 0) return t.at({head.n, h, row / rows_a_block});
  const std::array<int64_t, 4> at = instance.index(Role::kK, head.n, row, 0, 0).axes;
  return t.at({at[0], h, at[1] / rows_a_block});
}

Head load(const Instance& instance, int64_t n, int64_t h) {
  const Case& c = instance.c;
  Head head{n, h, query_span(c, n), key_span(c, n), {}, {}, {}};
  const int64_t sk = head.keys.used;
  const int64_t key_head = h / c.group();
  head.k.resize(static_cast<size_t>(c.d * sk));
  for (int64_t i = 0; i < head.queries.used; ++i) {
    const double factor = descale(instance, Role::kQDescale, head, i);
    for (int64_t x = 0; x < c.d; ++x) {
      const double value = instance[Role::kQ].at(instance.index(Role::kQ, n, i, h, x));
      head.q.push_back(static_cast<float>(factor * value));
    }
  }
  for (int64_t j = 0; j < sk; ++j) {
    const double k_factor = descale(instance, Role::kKDescale, head, j);
    const double v_factor = descale(instance, Role::kVDescale, head, j);
    for (int64_t x = 0; x < c.d; ++x) {
      const double value = instance[Role::kK].at(instance.index(Role::kK, n, j, key_head, x));
      head.k[static_cast<size_t>(x * sk + j)] = static_cast<float>(k_factor * value);
    }
    for (int64_t x = 0; x < c.dv; ++x) {
      const double value = instance[Role::kV].at(instance.index(Role::kV, n, j, key_head, x));
      head.v.push_back(static_cast<float>(v_factor * value));
    }
  }
  return head;
}

// Element (n, h, i, j) of a tensor that broadcasts along axes of size 1.
double broadcast_at(const HostTensor& t, std::array<int64_t, 4> index) {
  const std::vector<int64_t> shape = t.shape();
  for (size_t axis = 0; axis < 4; ++axis) {
    if (shape[axis] == 1) index[axis] = 0;
  }
  return t.at(index);
}

// What bias, ALiBi and boolean mask do to the logit of query i and key j.
float adjust(const Instance& instance, const Head& head, int64_t i, int64_t j, float logit) {
  const Case& c = instance.c;
  const std::array<int64_t, 4> at{head.n, head.h, i, j};
  if (instance[Role::kBias].present()) {
    logit += static_cast<float>(broadcast_at(instance[Role::kBias], at));
  }
  if (instance[Role::kAlibiSlopes].present()) {
    int64_t offset = head.keys.used - head.queries.used;
    if (c.alignment == VOLLEY_ALIGN_TOP_LEFT) offset = 0;
    if (c.alignment == VOLLEY_ALIGN_EXPLICIT) offset = c.offset;
    const auto distance = static_cast<float>(std::abs(i + offset - j));
    logit -= static_cast<float>(instance[Role::kAlibiSlopes].at({head.h})) * distance;
  }
  const HostTensor& mask = instance[Role::kMask];
  return mask.present() && broadcast_at(mask, at) == 0 ? kMinusInfinity : logit;
}

// The logits of row i, -inf where a key is not seen; raises max_logit.
std::vector<float> logits(const Instance& instance, const Head& head, int64_t i,
                          double* max_logit) {
  const Case& c = instance.c;
  const int64_t sk = head.keys.used;
  const auto width = static_cast<size_t>(sk);
  std::vector<float> s(width, 0.0f);
  for (int64_t x = 0; x < c.d; ++x) {
    const float q = head.q[static_cast<size_t>(i * c.d + x)];
    const float* k = head.k.data() + x * sk;
    for (size_t j = 0; j < width; ++j) s[j] += q * k[j];
  }
  const double root = std::sqrt(static_cast<double>(c.d));
  const auto scale = static_cast<float>(std::isnan(c.scale) ? 1 / root : c.scale);
  const auto cap = static_cast<float>(c.softcap);
  for (int64_t j = 0; j < sk; ++j) {
    float& logit = s[static_cast<size_t>(j)];
    const bool seen = band_sees(c, head.queries.used, sk, i, j);
    const float scaled = scale * logit;
    logit = cap > 0 ? cap * std::tanh(scaled / cap) : scaled;
    logit = seen ? adjust(instance, head, i, j, logit) : kMinusInfinity;
    if (!std::isfinite(logit)) continue;
    *max_logit = std::max<double>({*max_logit, std::abs(scaled), std::abs(logit)});
  }
  return s;
}

float round_to(int32_t dtype, float value) {
  switch (dtype) {
    case VOLLEY_F16: return core::f16_to_float(core::float_to_f16(value));
    case VOLLEY_BF16: return core::bf16_to_float(core::float_to_bf16(value));
    case VOLLEY_E4M3: return core::e4m3_to_float(core::float_to_e4m3(value));
    default: return value;
  }
}

// P is relative to the row's maximum, as in every flash kernel; the sum has it unrounded.
std::vector<float> output_row(const Instance& instance, const Head& head,
                              const std::vector<float>& s) {
  const Case& c = instance.c;
  const auto width = static_cast<size_t>(c.dv);
  std::vector<float> o(width, 0.0f);
  const float sink =
      c.sink ? static_cast<float>(instance[Role::kSink].at({head.h})) : kMinusInfinity;
  float max = sink;
  for (const float logit : s) max = std::max(max, logit);
  if (max == kMinusInfinity) return o;
  float sum = std::exp(sink - max);
  for (size_t j = 0; j < s.size(); ++j) {
    const float p = std::exp(s[j] - max);
    if (p == 0) continue;
    sum += p;
    const float rounded = round_to(c.dtype, p);
    const float* v = head.v.data() + j * width;
    for (size_t x = 0; x < width; ++x) o[x] += rounded * v[x];
  }
  for (float& value : o) value /= sum;
  return o;
}

}  // namespace

Naive naive_forward(const Instance& instance) {
  const Case& c = instance.c;
  const HostTensor& o = instance[Role::kO];
  Naive result{HostTensor(o.dtype(), o.shape()), 0};
  result.o.fill(0);
  for (int64_t n = 0; n < c.b; ++n) {
    for (int64_t h = 0; h < c.hq; ++h) {
      const Head head = load(instance, n, h);
      for (int64_t i = 0; i < head.queries.used; ++i) {
        const std::vector<float> s = logits(instance, head, i, &result.max_logit);
        const std::vector<float> row = output_row(instance, head, s);
        for (int64_t x = 0; x < c.dv; ++x) {
          result.o.set(instance.index(Role::kO, n, i, h, x), row[static_cast<size_t>(x)]);
        }
      }
    }
  }
  return result;
}

}  // namespace volley::check
