// SPDX-License-Identifier: BSD-3-Clause
//
// Cases and instances: what is filled is exactly what counts, values do not depend on the layout,
// and every random case is a valid problem.
#include "case.h"

#include <gtest/gtest.h>

#include <cmath>

#include "problem.h"

namespace volley::check {
namespace {

Scope everything() {
  Scope scope;
  scope.dtypes.push_back(VOLLEY_E4M3);
  scope.features = ~0u;
  scope.layouts.clear();
  for (int i = 0; i < static_cast<int>(Layout::kCount); ++i) {
    scope.layouts.push_back(static_cast<Layout>(i));
  }
  scope.max_pairs = 2000;
  return scope;
}

TEST(Case, FillsExactlyTheRowsThatCount) {
  Case c;
  c.b = 2;
  c.cu_q = {0, 3, 5};
  c.cu_k = {0, 4, 6};
  c.used_k = {2, 0};
  c.sq = 6;
  c.sk = 6;
  const Instance instance = build(c);
  const auto finite = [](const HostTensor& t, int64_t row) {
    return !std::isnan(t.at({row, 0, 0}));
  };
  for (int64_t row = 0; row < 6; ++row) {
    EXPECT_EQ(finite(instance[Role::kQ], row), row < 5) << row;
    EXPECT_EQ(finite(instance[Role::kK], row), row < 2) << row;
    EXPECT_EQ(finite(instance[Role::kV], row), row < 2) << row;
    EXPECT_FALSE(finite(instance[Role::kO], row));
  }
  EXPECT_TRUE(instance[Role::kQ].untouched_outside());
}

TEST(Case, PagesBelongToOneSequenceEach) {
  Case c;
  c.b = 3;
  c.page = 4;
  c.used_k = {5, 0, 8};
  const Instance instance = build(c);
  int64_t filled = 0;
  const HostTensor& k = instance[Role::kK];
  for (int64_t page = 0; page < k.shape()[0]; ++page) {
    for (int64_t row = 0; row < 4; ++row) filled += !std::isnan(k.at({page, row, 0, 0}));
  }
  EXPECT_EQ(filled, 13);
  EXPECT_EQ(instance[Role::kPageTable].at({1, 0}), 0x7f7f7f7f);
}

TEST(Case, ValuesDoNotDependOnLayoutOrNeighbours) {
  Case c;
  c.b = 2;
  c.sq = 5;
  c.set_heads(4, 2);
  const Instance plain = build(c);
  for (int i = 1; i < static_cast<int>(Layout::kOfAnyValues); ++i) {
    c.set_layout(static_cast<Layout>(i));
    EXPECT_TRUE(same_bits(build(c)[Role::kQ], plain[Role::kQ])) << layout_name(c.q_layout);
  }
  c.b = 1;
  c.first = 1;
  EXPECT_EQ(build(c)[Role::kQ].at({0, 4, 3, 2}), plain[Role::kQ].at({1, 4, 3, 2}));
}

TEST(Case, EveryRandomCaseIsAValidProblem) {
  const Scope scope = everything();
  uint32_t met = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Instance instance = build(random_case(scope, seed));
    core::Problem problem;
    const core::Status status = core::make_problem(instance.problem(), &problem);
    ASSERT_TRUE(status.ok()) << describe(instance.c) << ": " << status.message;
    met |= core::features_of(problem);
  }
  const uint32_t drawn = core::kCausal | core::kWindow | core::kSoftcap | core::kSink |
                         core::kVarlen | core::kUsedLengths | core::kPaged | core::kBias |
                         core::kAlibi | core::kMask | core::kDropout | core::kDescale |
                         core::kF32Output | core::kDifferentDv | core::kNonPositiveScale |
                         core::kAnyStride;
  EXPECT_EQ(met & drawn, drawn) << core::feature_names(drawn & ~met);
}

TEST(Case, BandFollowsTheContract) {
  Case c;
  c.causal = true;
  EXPECT_TRUE(band_sees(c, 2, 5, 0, 3));
  EXPECT_FALSE(band_sees(c, 2, 5, 0, 4));
  c.left = 1;
  EXPECT_TRUE(band_sees(c, 2, 5, 0, 2));
  EXPECT_FALSE(band_sees(c, 2, 5, 0, 1));
  c.alignment = VOLLEY_ALIGN_TOP_LEFT;
  EXPECT_FALSE(band_sees(c, 2, 5, 0, 1));
  EXPECT_TRUE(band_sees(c, 2, 5, 0, 0));
  c.alignment = VOLLEY_ALIGN_EXPLICIT;
  c.offset = -2;
  EXPECT_FALSE(band_sees(c, 2, 5, 0, 0));
  EXPECT_TRUE(band_sees(c, 5, 5, 2, 0));
}

}  // namespace
}  // namespace volley::check
