// SPDX-License-Identifier: BSD-3-Clause
//
// The suites of check/ on the GPU backends; skipped, with the reason, where there is no GPU. Most
// of the edge cases must be refused by sm90, and are then checked for a fitting reason and
// untouched outputs.
#include "suites.h"

#include <gtest/gtest.h>

#include "runner.h"

namespace volley::check {
namespace {

class GpuSuites : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override {
    std::string why;
    if (!backend_available(GetParam(), &why)) GTEST_SKIP() << why;
  }

  Report run(const char* suite, int64_t count = 0) {
    const Report report = find_suite(suite)->run({GetParam(), count, 1}, nullptr);
    for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
    return report;
  }
};

TEST_P(GpuSuites, Edges) { EXPECT_GT(run("edges").passed, 60); }
TEST_P(GpuSuites, Keys) { EXPECT_GT(run("keys").passed, 15); }
TEST_P(GpuSuites, Bits) { EXPECT_GT(run("bits").passed, 10); }
TEST_P(GpuSuites, Random) {
  const Report report = run("random", 1000);
  EXPECT_EQ(report.passed, 1000) << report.refused << " were refused";
}

class GpuGradientSuites : public GpuSuites {};

TEST_P(GpuGradientSuites, Edges) { EXPECT_GT(run("gradient edges").passed, 50); }
TEST_P(GpuGradientSuites, Bits) { EXPECT_GT(run("gradient bits").passed, 60); }
// One in forty sums dbias over queries and wants a fixed order, which is refused.
TEST_P(GpuGradientSuites, Random) {
  const Report report = run("gradient random", 1000);
  EXPECT_GE(report.passed, 970) << report.refused << " were refused";
}

INSTANTIATE_TEST_SUITE_P(Backends, GpuGradientSuites, testing::Values(VOLLEY_BACKEND_SM80),
                         [](const auto& test) { return volley_backend_name(test.param); });
INSTANTIATE_TEST_SUITE_P(Backends, GpuSuites,
                         testing::Values(VOLLEY_BACKEND_SM80, VOLLEY_BACKEND_SM90),
                         [](const auto& test) { return volley_backend_name(test.param); });

}  // namespace
}  // namespace volley::check
