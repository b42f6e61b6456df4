// SPDX-License-Identifier: BSD-3-Clause
//
// The cases of tests/cases on the CPU backends.
#include "../cases/cases.h"

namespace volley::check {
namespace {

INSTANTIATE_TEST_SUITE_P(Host, Cases, testing::Values(VOLLEY_BACKEND_REFERENCE, VOLLEY_BACKEND_CPU),
                         [](const auto& test) { return volley_backend_name(test.param); });

}  // namespace
}  // namespace volley::check
