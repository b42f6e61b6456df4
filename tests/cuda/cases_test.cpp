// SPDX-License-Identifier: BSD-3-Clause
//
// The cases of tests/cases on the GPU backends; skipped, with the reason, where there is no GPU.
#include "../cases/cases.h"

namespace volley::check {
namespace {

INSTANTIATE_TEST_SUITE_P(Gpu, Cases, testing::Values(VOLLEY_BACKEND_SM80, VOLLEY_BACKEND_SM90),
                         [](const auto& test) { return volley_backend_name(test.param); });

}  // namespace
}  // namespace volley::check
