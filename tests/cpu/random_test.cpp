// SPDX-License-Identifier: BSD-3-Clause
//
// 2,000 random problems of everything that the CPU backend offers, against the reference, and 2,000
// of its backward; in parts, so that they run side by side. A failure prints the case with its
// seed; `volley check --seed` draws others.
#include <gtest/gtest.h>

#include "suites.h"
#include "volley/volley.h"

namespace volley::check {
namespace {

constexpr int64_t kPart = 100;

class RandomProblems : public testing::TestWithParam<int> {};

TEST_P(RandomProblems, AgreeWithTheReference) {
  const auto first = static_cast<uint64_t>(GetParam()) * kPart;
  const Report report = find_suite("random")->run({VOLLEY_BACKEND_CPU, kPart, first}, nullptr);
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
  EXPECT_EQ(report.passed, kPart) << report.refused << " were refused";
}

INSTANTIATE_TEST_SUITE_P(Cpu, RandomProblems, testing::Range(0, 20));

class RandomGradients : public testing::TestWithParam<int> {};

TEST_P(RandomGradients, AgreeWithTheReference) {
  const auto first = static_cast<uint64_t>(GetParam()) * kPart;
  const Report report =
      find_suite("gradient random")->run({VOLLEY_BACKEND_CPU, kPart, first}, nullptr);
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
  EXPECT_EQ(report.passed, kPart) << report.refused << " were refused";
}

INSTANTIATE_TEST_SUITE_P(Cpu, RandomGradients, testing::Range(0, 20));

}  // namespace
}  // namespace volley::check
