// SPDX-License-Identifier: BSD-3-Clause
//
// Two programs that share no line of arithmetic, the naive one in fp32 and the float64 reference,
// must agree on random problems of every feature; and the naive one rounds where it says.
#include "naive.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(Naive, GradientsAgreeWithTheReference) {
  Scope scope = scope_of(VOLLEY_BACKEND_REFERENCE, VOLLEY_OP_BACKWARD);
  scope.dtypes = {VOLLEY_F32};
  scope.max_pairs = 1000;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Instance instance = build(random_case(scope, seed));
    const Verdict forward = fill_forward(instance);
    ASSERT_TRUE(forward.ok()) << describe(instance.c) << ": " << forward.sentence;
    const Answer answer = run(instance, VOLLEY_BACKEND_REFERENCE);
    ASSERT_TRUE(answer.ok()) << describe(instance.c) << ": " << answer.message << answer.broken;
    const NaiveGradients naive = naive_backward(instance);
    for (const Role role : {Role::kDq, Role::kDk, Role::kDv, Role::kDbias, Role::kDsink}) {
      const HostTensor& got = naive.tensors[static_cast<size_t>(role)];
      ASSERT_EQ(got.present(), instance[role].present());
      if (!got.present()) continue;
      double most = 1;
      for (int64_t i = 0; i < got.size(); ++i) most = std::max(most, std::abs(got.flat(i)));
      ASSERT_LE(largest_difference(got, instance[role]), 1e-5 * most * (4 + naive.max_logit))
          << core::info(role).name << " of " << describe(instance.c);
    }
  }
}

// The reference rounds its gradients once: the rule must accept that in every dtype.
TEST(Naive, GradientRuleAcceptsTheReference) {
  Scope scope = scope_of(VOLLEY_BACKEND_REFERENCE, VOLLEY_OP_BACKWARD);
  scope.max_pairs = 1000;
  for (uint64_t seed = 200; seed < 300; ++seed) {
    Instance instance = build(random_case(scope, seed));
    const Verdict verdict = check_backward(instance, VOLLEY_BACKEND_REFERENCE);
    ASSERT_EQ(verdict.result, Result::kPassed) << describe(instance.c) << ": " << verdict.sentence;
  }
}

TEST(Naive, ABackwardThatNobodyOffersIsRefused) {
  Case c;
  c.op = VOLLEY_OP_BACKWARD;
  c.dtype = VOLLEY_E4M3;
  Instance instance = build(c);
  const Verdict verdict = check_backward(instance, VOLLEY_BACKEND_CPU);
  EXPECT_EQ(verdict.result, Result::kRefused) << verdict.sentence;
}

}  // namespace
}  // namespace volley::check
