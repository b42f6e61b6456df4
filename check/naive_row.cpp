// SPDX-License-Identifier: BSD-3-Clause
#include "naive_row.h"

#include <algorithm>

#include "dtype.h"

namespace volley::check {
namespace {

double descale(const Instance& instance, Role role, const NaiveHead& head, int64_t row) {
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

// Element (n, h, i, j) of a tensor that broadcasts along axes of size 1.
double broadcast_at(const HostTensor& t, std::array<int64_t, 4> index) {
  const std::vector<int64_t> shape = t.shape();
  for (size_t axis = 0; axis < 4; ++axis) {
    if (shape[axis] == 1) index[axis] = 0;
  }
  return t.at(index);
}

// What bias, ALiBi and boolean mask do to the logit of query i and key j.
float adjust(const Instance& instance, const NaiveHead& head, int64_t i, int64_t j, float logit) {
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

}  // namespace

NaiveHead load_head(const Instance& instance, int64_t n, int64_t h) {
  const Case& c = instance.c;
  NaiveHead head{n, h, query_span(c, n), key_span(c, n), {}, {}, {}};
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

NaiveRow naive_row(const Instance& instance, const NaiveHead& head, int64_t i) {
  const Case& c = instance.c;
  const int64_t sk = head.keys.used;
  const auto width = static_cast<size_t>(sk);
  NaiveRow row{std::vector<float>(width, 0.0f), std::vector<float>(width, 1.0f),
               naive_keep(instance, head, i), 0};
  for (int64_t x = 0; x < c.d; ++x) {
    const float q = head.q[static_cast<size_t>(i * c.d + x)];
    const float* k = head.k.data() + x * sk;
    for (size_t j = 0; j < width; ++j) row.logit[j] += q * k[j];
  }
  const float scale = naive_scale(c);
  const auto cap = static_cast<float>(c.softcap);
  for (int64_t j = 0; j < sk; ++j) {
    float& logit = row.logit[static_cast<size_t>(j)];
    const float scaled = scale * logit;
    const float tanh = cap > 0 ? std::tanh(scaled / cap) : 0;
    logit = cap > 0 ? cap * tanh : scaled;
    row.slope[static_cast<size_t>(j)] = 1 - tanh * tanh;
    const bool seen = band_sees(c, head.queries.used, sk, i, j);
    logit = seen ? adjust(instance, head, i, j, logit) : kMinusInfinity;
    if (!std::isfinite(logit)) continue;
    row.max_logit = std::max<double>({row.max_logit, std::abs(scaled), std::abs(logit)});
  }
  return row;
}

float naive_scale(const Case& c) {
  return static_cast<float>(std::isnan(c.scale) ? 1 / std::sqrt(static_cast<double>(c.d))
                                                : c.scale);
}

float sink_of(const Instance& instance, const NaiveHead& head) {
  const HostTensor& sink = instance[Role::kSink];
  return sink.present() ? static_cast<float>(sink.at({head.h})) : kMinusInfinity;
}

float round_to(int32_t dtype, float value) {
  switch (dtype) {
    case VOLLEY_F16: return core::f16_to_float(core::float_to_f16(value));
    case VOLLEY_BF16: return core::bf16_to_float(core::float_to_bf16(value));
    case VOLLEY_E4M3: return core::e4m3_to_float(core::float_to_e4m3(value));
    default: return value;
  }
}

}  // namespace volley::check
