// SPDX-License-Identifier: BSD-3-Clause
//
// The comparer must be able to fail: on one element, on NaN and infinities, on many small errors.
#include "compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "random.h"

namespace volley::check {
namespace {

// A float64 result, the same rounded to bf16 (what naive would have), and a backend's copy of that.
struct Triple {
  HostTensor want{VOLLEY_F64, {4, 8, 16}};
  HostTensor naive{VOLLEY_BF16, {4, 8, 16}};
  HostTensor got{VOLLEY_BF16, {4, 8, 16}};

  Triple() {
    Random random(1);
    for (int64_t i = 0; i < want.size(); ++i) {
      want.set_flat(i, random.uniform(-1, 1));
      naive.set_flat(i, want.flat(i));
      got.set_flat(i, want.flat(i));
    }
  }
  Comparison compare() const { return check::compare("o", got, want, naive, kForwardRule, 1); }
};

TEST(Compare, AcceptsTheRoundedResult) {
  const Comparison result = Triple().compare();
  EXPECT_TRUE(result.ok) << result.sentence;
  EXPECT_GT(result.max_error, 0);
  EXPECT_LT(result.max_error, 0x1p-8);
}

TEST(Compare, NamesTheOneWrongElement) {
  Triple t;
  t.got.set({2, 3, 4}, t.want.at({2, 3, 4}) + 0.04);
  const Comparison result = t.compare();
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.sentence.rfind("o[2, 3, 4] is ", 0), 0u) << result.sentence;
}

TEST(Compare, SeesManySmallErrors) {
  Triple t;
  for (int64_t i = 0; i < t.got.size(); ++i) t.got.set_flat(i, t.want.flat(i) + 0.006);
  const Comparison result = t.compare();
  EXPECT_FALSE(result.ok);
  EXPECT_LE(result.max_error, result.max_bound);
  EXPECT_GT(result.rmse, result.rmse_bound);
  EXPECT_NE(result.sentence.find("root-mean-square"), std::string::npos);
}

// A row of o is off as a whole where the sum has 1 + 2^-23 for its one weight. naive is exact here.
TEST(Compare, AllowsARoundingOfEachRowsLargestLogit) {
  const HostTensor want = Triple().want;
  HostTensor exact(VOLLEY_F32, want.shape()), got(VOLLEY_F32, want.shape());
  double squares = 0;
  for (int64_t i = 0; i < want.size(); ++i) {
    exact.set_flat(i, want.flat(i));
    got.set_flat(i, want.flat(i) / (1 + 0x1p-22));
    squares += want.flat(i) * want.flat(i);
  }
  const auto ok = [&](double logit) {
    const double rms = std::sqrt(squares / static_cast<double>(want.size()));
    return compare("o", got, want, exact, kForwardRule, logit, {0, 0x1p-23 * logit * rms}).ok;
  };
  EXPECT_TRUE(ok(3));
  EXPECT_FALSE(ok(1));
}

TEST(Compare, WantsNanAndInfinityWhereTheReferenceHasThem) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double special : {std::nan(""), inf, -inf}) {
    Triple t;
    t.got.set({1, 0, 0}, special);
    EXPECT_FALSE(t.compare().ok);
    t.want.set({1, 0, 0}, special);
    EXPECT_TRUE(t.compare().ok);
    t.got.set({1, 0, 0}, 0);
    EXPECT_FALSE(t.compare().ok);
    t.got.set({1, 0, 0}, -special);
    EXPECT_EQ(t.compare().ok, std::isnan(special));
  }
}

TEST(Compare, WantsTheShape) {
  Triple t;
  t.got = HostTensor(VOLLEY_BF16, {4, 8, 15});
  EXPECT_FALSE(t.compare().ok);
}

TEST(Compare, BoundsLse) {
  HostTensor want(VOLLEY_F64, {1, 1, 2});
  HostTensor got(VOLLEY_F32, {1, 1, 2});
  want.fill(3);
  got.fill(3);
  got.set({0, 0, 1}, 3 + 5e-5);
  EXPECT_FALSE(compare_lse(got, want, 1).ok);
  EXPECT_TRUE(compare_lse(got, want, 10).ok);  // large logits allow more
  want.set({0, 0, 0}, -std::numeric_limits<double>::infinity());
  EXPECT_FALSE(compare_lse(got, want, 10).ok);
}

TEST(Compare, UlpOfEachDtype) {
  EXPECT_EQ(ulp(VOLLEY_F32, 1), 0x1p-23);
  EXPECT_EQ(ulp(VOLLEY_BF16, 1.5), 0x1p-7);
  EXPECT_EQ(ulp(VOLLEY_F16, 3), 0x1p-9);
  EXPECT_EQ(ulp(VOLLEY_F16, 0), 0x1p-24);
  EXPECT_EQ(ulp(VOLLEY_E4M3, 448), 32);
}

}  // namespace
}  // namespace volley::check
