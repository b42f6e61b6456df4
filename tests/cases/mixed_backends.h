// SPDX-License-Identifier: BSD-3-Clause
//
// Backends share o and LSE: the backward of one takes them from the forward of any other.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include "runner.h"

namespace volley::check {

// `count` random problems that both offer, `forward` in any layout that it reads.
inline void expect_right_gradients_after(int32_t forward, int32_t backward, int count) {
  const Scope first = scope_of(forward);
  Scope scope = scope_of(backward, VOLLEY_OP_BACKWARD);
  std::erase_if(scope.dtypes, [&](int32_t dtype) {
    return std::find(first.dtypes.begin(), first.dtypes.end(), dtype) == first.dtypes.end();
  });
  scope.features &= first.features;
  scope.head_dims = first.head_dims;
  scope.layouts = first.layouts;
  scope.max_pairs /= 4;  // the naive gradients are slow
  int passed = 0;
  for (int seed = 1; seed <= count; ++seed) {
    Instance instance = build(random_case(scope, static_cast<uint64_t>(seed)));
    const Verdict verdict = check_backward(instance, backward, forward);
    EXPECT_TRUE(verdict.ok()) << describe(instance.c) << ": " << verdict.sentence;
    passed += verdict.result == Result::kPassed;
  }
  EXPECT_GT(passed, count / 3);
}

}  // namespace volley::check
