// SPDX-License-Identifier: BSD-3-Clause
//
// The tolerance rule: what counts as a right result. NaN and infinities must be where the reference
// has them; the error against the float64 reference of the same rounded inputs is bounded by a
// multiple of the naive program's (naive.h) in the same precision. Read runner.h next.
#pragma once

#include <string>

#include "tensor.h"

namespace volley::check {

// Multiples of naive's error that are allowed, beside a slack of 2 ulp of the largest |reference|.
// fp32 results get, on top, what one fp32 rounding of the largest logit moves: naive escapes it by
// luck in a small tensor, and no rounding of the output to fewer bits hides it. Rounding (below) is
// on top of that.
struct Rule {
  double max_factor;
  double rmse_factor;
};
inline constexpr Rule kForwardRule{2, 1.5};
inline constexpr Rule kGradientRule{3, 2};

// What fp32 roundings move one element by at most, and all of them as a root mean square, beside
// the above. Of an fp32 o of narrower inputs: the largest weight of a row is 1 in the product,
// where it has 16 bits, but in the sum off by a rounding of its own logit, and with it the whole
// row. Of gradients in every dtype: with one key P is 1 and dS is 0, which naive hits exactly
// because it sums dO.v and dO.o in one order.
struct Rounding {
  double most = 0;
  double rms = 0;
};

struct Comparison {
  bool ok = true;
  double max_error = 0;
  double max_bound = 0;
  double rmse = 0;
  double rmse_bound = 0;
  std::string sentence;  // "o is right: max error ...", or what is wrong, with the worst index
};

// want in float64; naive of the same shape; max_logit of |scaled logit|.
Comparison compare(const std::string& name, const HostTensor& got, const HostTensor& want,
                   const HostTensor& naive, const Rule& rule, double max_logit,
                   const Rounding& rounding = {});

// The same with the bounds of another comparison: for an answer that comes from elsewhere, so that
// an error of its own does not widen them.
Comparison compare_within(const std::string& name, const HostTensor& got, const HostTensor& want,
                          const Comparison& bounds);

// Bound: 2e-5 + 4e-6 * max_logit for every element.
Comparison compare_lse(const HostTensor& got, const HostTensor& want, double max_logit);

// The distance from |value| to the next larger number of a floating dtype.
double ulp(int32_t dtype, double value);

}  // namespace volley::check
