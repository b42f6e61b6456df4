// SPDX-License-Identifier: BSD-3-Clause
//
// The suites of check/ on the CPU backends. What they refuse is counted: an offer that is lost
// shows as a failure inside, a suite that tests nothing shows here.
#include "suites.h"

#include <gtest/gtest.h>

#include "volley/volley.h"

namespace volley::check {
namespace {

class Suites : public testing::TestWithParam<int32_t> {
 protected:
  Report run(const char* suite, int64_t count = 0, uint64_t seed = 1) {
    const Report report = find_suite(suite)->run({GetParam(), count, seed}, nullptr);
    for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
    return report;
  }
};

TEST_P(Suites, Edges) { EXPECT_GT(run("edges").passed, 250); }
TEST_P(Suites, Keys) { EXPECT_GT(run("keys").passed, 200); }
TEST_P(Suites, Bits) { EXPECT_GT(run("bits").passed, 60); }

class GradientSuites : public Suites {};

TEST_P(GradientSuites, Edges) { EXPECT_GT(run("gradient edges").passed, 150); }
TEST_P(GradientSuites, Bits) { EXPECT_GT(run("gradient bits").passed, 30); }

INSTANTIATE_TEST_SUITE_P(Backends, Suites,
                         testing::Values(VOLLEY_BACKEND_REFERENCE, VOLLEY_BACKEND_CPU),
                         [](const auto& test) { return volley_backend_name(test.param); });
INSTANTIATE_TEST_SUITE_P(Backends, GradientSuites,
                         testing::Values(VOLLEY_BACKEND_REFERENCE, VOLLEY_BACKEND_CPU),
                         [](const auto& test) { return volley_backend_name(test.param); });

}  // namespace
}  // namespace volley::check
