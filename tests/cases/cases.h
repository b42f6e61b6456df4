// SPDX-License-Identifier: BSD-3-Clause
//
// Small cases distilled from public bug reports of attention libraries, as tests that take the
// backend as their parameter. tests/cpu/cases_test.cpp and tests/cuda/cases_test.cpp say on which
// backends they run; what a backend need not offer must be refused properly, and nothing else.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <concepts>
#include <limits>

#include "bits.h"
#include "compare.h"
#include "runner.h"

namespace volley::check {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Cases : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override {
    std::string why;
    if (!backend_available(GetParam(), &why)) GTEST_SKIP() << why;
  }

  int32_t backend() const { return GetParam(); }

  // True when the outputs are there; a refusal that is right is no failure.
  bool offered(Instance& instance) {
    const Verdict verdict = judge_answer(instance, backend(), run(instance, backend()));
    EXPECT_TRUE(verdict.ok()) << describe(instance.c) << ": " << verdict.sentence;
    return verdict.result == Result::kPassed;
  }

  void expect_right(Instance instance) {
    const Verdict verdict = check_forward(instance, backend());
    EXPECT_TRUE(verdict.ok()) << describe(instance.c) << ": " << verdict.sentence;
  }

  // The same for a backward, with o and lse of the reference's forward.
  bool gradients_offered(Instance& instance) {
    const Verdict forward = fill_forward(instance);
    EXPECT_TRUE(forward.ok()) << describe(instance.c) << ": " << forward.sentence;
    return offered(instance);
  }

  void expect_right_gradients(Instance instance) {
    const Verdict verdict = check_backward(instance, backend());
    EXPECT_TRUE(verdict.ok()) << describe(instance.c) << ": " << verdict.sentence;
  }

  void expect_same(Instance a, Instance b, int64_t shift = 0) {
    const Verdict verdict = same_outputs(a, b, shift, backend());
    EXPECT_TRUE(verdict.ok()) << describe(a.c) << ": " << verdict.sentence;
  }

  // Is this many multiply-adds a fair thing to ask of the backend in a test?
  bool affordable(double multiply_adds) const {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const double cpu = 2e10;  // some twenty times slower
#else
    const double cpu = 5e11;
#endif
    return backend() == VOLLEY_BACKEND_SM90 ||
           multiply_adds < (backend() == VOLLEY_BACKEND_REFERENCE ? 1e10 : cpu);
  }
};

// A case whose q, k and v the test fills itself.
inline Case blank(int32_t dtype, int64_t sq, int64_t sk, int64_t head_dim) {
  Case c;
  c.dtype = dtype;
  c.sq = sq;
  c.sk = sk;
  c.d = c.dv = head_dim;
  c.values = Values::kNone;
  return c;
}

// value(n, i, h, x) for every element that counts.
template <std::invocable<int64_t, int64_t, int64_t, int64_t> Value>
void set_rows(Instance& instance, Role role, const Value& value) {
  const Case& c = instance.c;
  const bool keys = role == Role::kK || role == Role::kV;
  const int64_t heads = keys ? c.hk : c.hq;
  const int64_t width = role == Role::kV || role == Role::kDout ? c.dv : c.d;
  for (int64_t n = 0; n < c.b; ++n) {
    const int64_t rows = (keys ? key_span(c, n) : query_span(c, n)).used;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t x = 0; x < width; ++x) {
          instance[role].set(instance.index(role, n, i, h, x), value(n, i, h, x));
        }
      }
    }
  }
}

inline void set_rows(Instance& instance, Role role, double value) {
  set_rows(instance, role, [=](int64_t, int64_t, int64_t, int64_t) { return value; });
}

inline double o_at(const Instance& instance, int64_t n, int64_t i, int64_t h, int64_t x) {
  return instance[Role::kO].at(instance.index(Role::kO, n, i, h, x));
}

// Every element of o's row, all heads, is within `bound` of `wanted`.
inline void expect_row(const Instance& instance, int64_t n, int64_t i, double wanted,
                       double bound = 0) {
  for (int64_t h = 0; h < instance.c.hq; ++h) {
    for (int64_t x = 0; x < instance.c.dv; ++x) {
      ASSERT_NEAR(o_at(instance, n, i, h, x), wanted, bound)
          << describe(instance.c) << " sequence " << n << ", query " << i << ", head " << h;
    }
  }
}

// The largest difference of two tensors of one shape; NaN when either has one.
inline double largest_difference(const HostTensor& a, const HostTensor& b) {
  double most = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a.flat(i) - b.flat(i));
    if (!(difference <= most)) most = difference;
  }
  return most;
}

}  // namespace volley::check
