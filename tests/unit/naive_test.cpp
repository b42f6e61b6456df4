// SPDX-License-Identifier: BSD-3-Clause
//
// Two programs that share no line of arithmetic, the naive one in fp32 and the float64 reference,
// must agree on random problems of every feature; and the naive one rounds where it says.
#include "naive.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runner.h"

namespace volley::check {
namespace {

double largest_difference(const HostTensor& a, const HostTensor& b) {
  double most = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a.flat(i) - b.flat(i));
    if (!(difference <= most)) most = difference;  // NaN wins
  }
  return most;
}

TEST(Naive, AgreesWithTheReference) {
  Scope scope = scope_of(VOLLEY_BACKEND_REFERENCE);
  scope.dtypes = {VOLLEY_F32};
  scope.features &= ~core::kDropout;
  scope.max_pairs = 4000;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Instance instance = build(random_case(scope, seed));
    const Oracle oracle = oracle_of(instance);
    ASSERT_TRUE(oracle.answer.ok())
        << describe(instance.c) << ": " << oracle.answer.message << oracle.answer.broken;
    const double bound = 4e-6 * (4 + oracle.naive.max_logit);
    ASSERT_LE(largest_difference(oracle.naive.o, oracle.o), bound) << describe(instance.c);
  }
}

TEST(Naive, AgreesWithTheReferenceOnFp8) {
  Scope scope = scope_of(VOLLEY_BACKEND_REFERENCE);
  scope.dtypes = {VOLLEY_E4M3};
  scope.features &= ~core::kDropout;
  scope.max_pairs = 4000;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Instance instance = build(random_case(scope, seed));
    const Verdict verdict = check_forward(instance, VOLLEY_BACKEND_REFERENCE);
    ASSERT_EQ(verdict.result, Result::kPassed) << describe(instance.c) << ": " << verdict.sentence;
  }
}

TEST(Naive, RoundsPOnceToTheInputsType) {
  Case c;
  c.sk = 3;  // weights 1, 1, exp(-1) of value 0, 0, 1
  Instance instance = build(c);
  instance[Role::kQ].fill(1);
  instance[Role::kK].fill(0);
  instance[Role::kV].fill(0);
  for (int64_t x = 0; x < 64; ++x) {
    instance[Role::kK].set({0, 2, 0, x}, -0.125);
    instance[Role::kV].set({0, 2, 0, x}, 1);
  }
  const double p = 0.3671875;  // exp(-1) in bf16
  const double sum = 2 + std::exp(-1.0);
  HostTensor wanted(VOLLEY_BF16, {1});
  wanted.fill(p / sum);
  const Naive naive = naive_forward(instance);
  EXPECT_EQ(naive.o.flat(0), wanted.flat(0));
  EXPECT_EQ(naive.max_logit, 1);
}

}  // namespace
}  // namespace volley::check
