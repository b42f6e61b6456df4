// SPDX-License-Identifier: BSD-3-Clause
#include "../cases/mixed_backends.h"

namespace volley::check {
namespace {

class MixedBackends : public testing::TestWithParam<int32_t> {};

TEST_P(MixedBackends, TheV2BackwardTakesAnyForwardsResults) {
  for (const int32_t backend : {GetParam(), int32_t{VOLLEY_BACKEND_SM80}}) {
    std::string why;
    if (!backend_available(backend, &why)) GTEST_SKIP() << why;
  }
  expect_right_gradients_after(GetParam(), VOLLEY_BACKEND_SM80, 200);
}

INSTANTIATE_TEST_SUITE_P(Forward, MixedBackends,
                         testing::Values(VOLLEY_BACKEND_CPU, VOLLEY_BACKEND_SM80,
                                         VOLLEY_BACKEND_SM90),
                         [](const auto& test) { return volley_backend_name(test.param); });

}  // namespace
}  // namespace volley::check
