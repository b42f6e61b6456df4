// SPDX-License-Identifier: BSD-3-Clause
//
// Naive attention: one query head of one sequence at a time, each row at once.
#include "naive.h"

#include <algorithm>
#include <cmath>

#include "naive_row.h"

namespace volley::check {
namespace {

// Of |largest logit of the row * an element of o|^2, as far as they are finite.
double sum_of_squares(const std::vector<float>& logits, const std::vector<float>& o) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float value : o) {
    const double product = top * value;
    if (std::isfinite(product)) sum += product * product;
  }
  return sum;
}

// P is relative to the row's maximum, as in every flash kernel; the sum has it unrounded.
std::vector<float> output_row(const Instance& instance, const NaiveHead& head,
                              const NaiveRow& row) {
  const std::vector<float>& s = row.logit;
  const Case& c = instance.c;
  const auto width = static_cast<size_t>(c.dv);
  std::vector<float> o(width, 0.0f);
  const float sink = sink_of(instance, head);
  float max = sink;
  for (const float logit : s) max = std::max(max, logit);
  if (max == kMinusInfinity) return o;
  float sum = std::exp(sink - max);
  for (size_t j = 0; j < s.size(); ++j) {
    const float p = std::exp(s[j] - max);
    if (p == 0) continue;
    sum += p;
    const float rounded = round_to(c.dtype, p) * row.keep[j];
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
  Naive result{HostTensor(o.dtype(), o.shape()), 0, {}};
  result.o.fill(0);
  double squares = 0;
  for (int64_t n = 0; n < c.b; ++n) {
    for (int64_t h = 0; h < c.hq; ++h) {
      const NaiveHead head = load_head(instance, n, h);
      for (int64_t i = 0; i < head.queries.used; ++i) {
        const NaiveRow logits = naive_row(instance, head, i);
        const std::vector<float> row = output_row(instance, head, logits);
        result.max_logit = std::max(result.max_logit, logits.max_logit);
        for (int64_t x = 0; x < c.dv; ++x) {
          result.o.set(instance.index(Role::kO, n, i, h, x), row[static_cast<size_t>(x)]);
        }
        if (!logits.logit.empty()) squares += sum_of_squares(logits.logit, row);
      }
    }
  }
  // Where m * scale is rounded, by up to 2^-24 of itself, P of the largest logit is not exactly 1
  // in the sum, and rounding P may double that. In 16 bits it is 1.
  if (o.dtype() == VOLLEY_F32 && c.dtype != VOLLEY_F32 && o.size() > 0) {
    result.rounding.rms = 0x1p-23 * std::sqrt(squares / static_cast<double>(o.size()));
  }
  return result;
}

}  // namespace volley::check
