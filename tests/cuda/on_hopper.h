// SPDX-License-Identifier: BSD-3-Clause
//
// The fixture of tests that ask the sm90 backend for numbers, and the calls that they ask about.
#pragma once

#include <array>
#include <string>

#include "../cases/cases.h"

namespace volley::check {

inline constexpr std::array<int32_t, 2> kHalves{VOLLEY_BF16, VOLLEY_F16};

struct HeadDims {
  int64_t d, dv;
};
// Those of the kernels, and some that run in the next larger.
inline constexpr std::array<HeadDims, 11> kHeadDims{{{64, 64},
                                                     {96, 96},
                                                     {128, 128},
                                                     {192, 128},
                                                     {192, 192},
                                                     {256, 256},
                                                     {8, 40},
                                                     {72, 88},
                                                     {104, 120},
                                                     {136, 200},
                                                     {160, 16}}};

class OnHopper : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!backend_available(VOLLEY_BACKEND_SM90, &why)) GTEST_SKIP() << why;
  }

  // All that is asked here is offered: a refusal is a failure.
  static void expect_right(Instance instance) {
    const Verdict verdict = check_forward(instance, VOLLEY_BACKEND_SM90);
    EXPECT_TRUE(verdict.result == Result::kPassed)
        << describe(instance.c) << ": " << verdict.sentence;
  }

  // The bits of sequence n of `a` and n + shift of `b`.
  static void expect_same(Instance& a, Instance& b, int64_t shift = 0) {
    const Verdict verdict = same_outputs(a, b, shift, VOLLEY_BACKEND_SM90);
    EXPECT_TRUE(verdict.result == Result::kPassed) << describe(a.c) << ": " << verdict.sentence;
  }
};

}  // namespace volley::check
