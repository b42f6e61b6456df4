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

// Logits of 8 and 1, values of 2 and 3: each row's own rounding counts.
TEST(Naive, RoundingIsThatOfEachRowsLargestLogit) {
  Case c;
  c.out_dtype = VOLLEY_F32;
  c.sq = 2;
  c.sk = 2;
  c.left = c.right = 0;
  Instance instance = build(c);
  for (int64_t x = 0; x < 64; ++x) {
    for (int64_t i = 0; i < 2; ++i) {
      instance[Role::kQ].set({0, i, 0, x}, i == 0 ? 1 : 0.125);
      instance[Role::kV].set({0, i, 0, x}, i == 0 ? 2 : 3);
    }
  }
  instance[Role::kK].fill(1);
  EXPECT_EQ(naive_forward(instance).rounding.rms, 0x1p-23 * std::sqrt((256. + 9) / 2));
  instance[Role::kO] = HostTensor(VOLLEY_BF16, instance[Role::kO].shape());
  EXPECT_EQ(naive_forward(instance).rounding.rms, 0);
  Case wide;  // product and sum have the same P
  wide.dtype = VOLLEY_F32;
  EXPECT_EQ(naive_forward(build(wide)).rounding.rms, 0);
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

// An fp32 o beside answers that are wrong in a way that roundings could excuse.
class ForwardRule : public testing::TestWithParam<double> {
 protected:
  Case random(int32_t dtype, uint64_t seed) const {
    Case c;
    c.dtype = dtype;
    c.out_dtype = VOLLEY_F32;
    c.sq = c.sk = 60;
    c.causal = true;
    c.logit_std = GetParam();
    c.seed = seed;
    return c;
  }

  static bool accepts(const Instance& instance, const HostTensor& o) {
    const Oracle oracle = oracle_of(instance);
    return compare("o", o, oracle.o, oracle.naive.o, kForwardRule, oracle.naive.max_logit,
                   oracle.naive.rounding)
        .ok;
  }
};

TEST_P(ForwardRule, SeesAScaleThatIsOff) {
  for (const int32_t dtype : {VOLLEY_F32, VOLLEY_F16}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const Instance instance = build(random(dtype, seed));
      Instance other = instance.clone();
      HostTensor o(VOLLEY_F32, instance[Role::kO].shape());
      for (const double factor : {1.0, dtype == VOLLEY_F32 ? 1.00001 : 1.001}) {
        other.options.scale = factor / 8;
        const HostTensor exact = exact_of(other).o;
        for (int64_t i = 0; i < o.size(); ++i) o.set_flat(i, exact.flat(i));
        EXPECT_EQ(accepts(instance, o), factor == 1) << describe(instance.c) << factor;
      }
    }
  }
}

// fp32 inputs, computed as if they were fp16: so is what they hold.
TEST_P(ForwardRule, SeesThatPHas16Bits) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Instance narrow = build(random(VOLLEY_F16, seed));
    Instance wide = build(random(VOLLEY_F32, seed));
    for (const Role role : {Role::kQ, Role::kK, Role::kV}) {
      for (int64_t i = 0; i < wide[role].size(); ++i) {
        wide[role].set_flat(i, narrow[role].flat(i));
      }
    }
    EXPECT_TRUE(accepts(wide, naive_forward(wide).o)) << describe(wide.c);
    EXPECT_FALSE(accepts(wide, naive_forward(narrow).o)) << describe(wide.c);
  }
}

// What rounding a row's largest logit moves may be in every row; what is right for the row with the
// largest of all, not in the others, though no element is too far off.
TEST_P(ForwardRule, SeesRowsThatShareAnError) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Case c = random(VOLLEY_F16, seed);
    c.left = 0;  // each query sees one key
    const Instance instance = build(c);
    const Oracle oracle = oracle_of(instance);
    HostTensor o(VOLLEY_F32, oracle.o.shape());
    for (const double error : {0x1p-24 * GetParam(), 0x1p-23 * oracle.naive.max_logit}) {
      for (int64_t i = 0; i < o.size(); ++i) o.set_flat(i, oracle.o.flat(i) * (1 + error));
      const Comparison result = compare("o", o, oracle.o, oracle.naive.o, kForwardRule,
                                        oracle.naive.max_logit, oracle.naive.rounding);
      EXPECT_LE(result.max_error, result.max_bound) << result.sentence;
      EXPECT_EQ(result.ok, error == 0x1p-24 * GetParam()) << result.sentence;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(LogitsOf, ForwardRule, testing::Values(1., 8.));

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
