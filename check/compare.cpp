// SPDX-License-Identifier: BSD-3-Clause
//
// The tolerance rule, element by element.
#include "compare.h"

#include <algorithm>
#include <cmath>

#include "fmt.h"

namespace volley::check {
namespace {

std::vector<int64_t> unflatten(const HostTensor& t, int64_t flat) {
  std::vector<int64_t> index = t.shape();
  for (size_t axis = index.size(); axis-- > 0;) {
    const int64_t extent = index[axis];
    index[axis] = flat % extent;
    flat /= extent;
  }
  return index;
}

std::string place(const std::string& name, const HostTensor& t, int64_t flat) {
  return fmt::format("{}[{}]", name, fmt::join(unflatten(t, flat), ", "));
}

bool same_class(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::isinf(a) || std::isinf(b) ? a == b : true;
}

// Shapes, then NaN and infinities; a sentence when something is wrong.
std::string compare_classes(const std::string& name, const HostTensor& got,
                            const HostTensor& want) {
  if (got.shape() != want.shape()) {
    return fmt::format("{} has shape ({}), wanted ({})", name, fmt::join(got.shape(), ", "),
                       fmt::join(want.shape(), ", "));
  }
  for (int64_t i = 0, n = want.size(); i < n; ++i) {
    if (same_class(got.flat(i), want.flat(i))) continue;
    return fmt::format("{} is {}, wanted {}", place(name, want, i), got.flat(i), want.flat(i));
  }
  return {};
}

struct Errors {
  double max = 0;
  double sum_of_squares = 0;
  int64_t worst = 0;
};

Errors errors_of(const HostTensor& got, const HostTensor& want) {
  Errors errors;
  for (int64_t i = 0, n = want.size(); i < n; ++i) {
    if (!std::isfinite(want.flat(i))) continue;
    const double error = std::abs(got.flat(i) - want.flat(i));
    errors.sum_of_squares += error * error;
    if (!(error > errors.max)) continue;
    errors.max = error;
    errors.worst = i;
  }
  return errors;
}

double largest(const HostTensor& t) {
  double most = 0;
  for (int64_t i = 0, n = t.size(); i < n; ++i) {
    if (std::isfinite(t.flat(i))) most = std::max(most, std::abs(t.flat(i)));
  }
  return most;
}

std::string worst_sentence(const std::string& name, const HostTensor& got, const HostTensor& want,
                           const Errors& errors, const Comparison& result) {
  const bool max_failed = result.max_error > result.max_bound;
  return fmt::format("{} is {:.9g}, wanted {:.9g}; {} error {:.3g} is above the bound {:.3g}",
                     place(name, want, errors.worst), got.flat(errors.worst),
                     want.flat(errors.worst), max_failed ? "its" : "the root-mean-square",
                     max_failed ? result.max_error : result.rmse,
                     max_failed ? result.max_bound : result.rmse_bound);
}

// The classes have been compared.
Comparison judge(const std::string& name, const HostTensor& got, const HostTensor& want,
                 double max_bound, double rmse_bound) {
  const Errors errors = errors_of(got, want);
  const auto count = static_cast<double>(std::max<int64_t>(want.size(), 1));
  Comparison result;
  result.max_error = errors.max;
  result.max_bound = max_bound;
  result.rmse = std::sqrt(errors.sum_of_squares / count);
  result.rmse_bound = rmse_bound;
  result.ok = result.max_error <= result.max_bound && result.rmse <= result.rmse_bound;
  result.sentence =
      result.ok
          ? fmt::format("{} is right: max error {:.3g} (bound {:.3g}), rmse {:.3g} (bound {:.3g})",
                        name, result.max_error, result.max_bound, result.rmse, result.rmse_bound)
          : worst_sentence(name, got, want, errors, result);
  return result;
}

Comparison wrong(const std::string& sentence) {
  Comparison result;
  result.ok = false;
  result.sentence = sentence;
  return result;
}

}  // namespace

double ulp(int32_t dtype, double value) {
  int digits = 24;  // of the significand
  int least_exponent = -126;
  switch (dtype) {
    case VOLLEY_F64: digits = 53, least_exponent = -1022; break;
    case VOLLEY_F16: digits = 11, least_exponent = -14; break;
    case VOLLEY_BF16: digits = 8; break;
    case VOLLEY_E4M3: digits = 4, least_exponent = -6; break;
    default: break;
  }
  const int exponent = value == 0 ? least_exponent : std::ilogb(value);
  return std::ldexp(1.0, std::max(exponent, least_exponent) - (digits - 1));
}

Comparison compare(const std::string& name, const HostTensor& got, const HostTensor& want,
                   const HostTensor& naive, const Rule& rule, double max_logit,
                   const Rounding& rounding) {
  const std::string sentence = compare_classes(name, got, want);
  if (!sentence.empty()) return wrong(sentence);
  const auto count = static_cast<double>(std::max<int64_t>(want.size(), 1));
  const Errors yardstick = errors_of(naive, want);
  const double most = largest(want);
  const double logit_rounding = got.dtype() == VOLLEY_F32 ? 0x1p-23 * max_logit * most : 0;
  const double slack = 2 * ulp(got.dtype(), most) + logit_rounding + rounding.most;
  // One element may use up its slack: without it a tensor of a handful of elements fails by luck,
  // when naive happens to round to the right side; in a large one it weighs nothing.
  // Its roundings may be in all of them.
  const double rmse_bound = rule.rmse_factor * std::sqrt(yardstick.sum_of_squares / count) +
                            slack / std::sqrt(count) + rounding.rms;
  return judge(name, got, want, rule.max_factor * yardstick.max + slack, rmse_bound);
}

Comparison compare_within(const std::string& name, const HostTensor& got, const HostTensor& want,
                          const Comparison& bounds) {
  const std::string sentence = compare_classes(name, got, want);
  if (!sentence.empty()) return wrong(sentence);
  return judge(name, got, want, bounds.max_bound, bounds.rmse_bound);
}

Comparison compare_lse(const HostTensor& got, const HostTensor& want, double max_logit) {
  const std::string sentence = compare_classes("lse", got, want);
  if (!sentence.empty()) return wrong(sentence);
  const double bound = 2e-5 + 4e-6 * max_logit;
  return judge("lse", got, want, bound, bound);
}

}  // namespace volley::check
