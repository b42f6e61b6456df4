// SPDX-License-Identifier: BSD-3-Clause
//
// The V2 kernels, emulated: the suites and cases of the other backends, through the C ABI. Each
// launch draws another order of CTAs and warps and other times for copies to land, from the seed of
// the test.
#include <gtest/gtest.h>

#include "../cases/cases.h"
#include "../cases/mixed_backends.h"
#include "naive_row.h"
#include "sm80_backend.h"
#include "suites.h"

namespace volley::check {
namespace {

constexpr int32_t kBackend = VOLLEY_BACKEND_SM80;

Report run_suite(const char* suite, int64_t count, uint64_t seed) {
  emulator::set_seed(seed);
  const Report report = find_suite(suite)->run({kBackend, count, seed}, nullptr);
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
  return report;
}

TEST(EmulatedSm80, Edges) { EXPECT_GT(run_suite("edges", 0, 1).passed, 100); }
TEST(EmulatedSm80, Keys) { EXPECT_GT(run_suite("keys", 0, 2).passed, 100); }
TEST(EmulatedSm80, Bits) { EXPECT_GT(run_suite("bits", 0, 3).passed, 20); }

// A CTA computes tile after tile of queries, of the backward block after block of keys, where
// max_sms leaves it no other choice.
TEST(EmulatedSm80, OneCtaComputesEverything) {
  for (const int32_t op : {VOLLEY_OP_FORWARD, VOLLEY_OP_BACKWARD}) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      emulator::set_seed(seed);
      Case c;
      c.op = op;
      c.dtype = seed % 2 == 0 ? VOLLEY_F16 : VOLLEY_BF16;
      c.b = 2;
      c.d = c.dv = 64 << seed % 3;
      c.sq = 150;
      c.sk = 170;
      c.set_heads(2, 1);
      c.causal = seed % 4 < 2;
      c.seed = seed;
      Instance instance = build(c);
      instance.options.max_sms = 1;
      const Verdict verdict = op == VOLLEY_OP_FORWARD ? check_forward(instance, kBackend)
                                                      : check_backward(instance, kBackend);
      EXPECT_EQ(verdict.result, Result::kPassed) << describe(c) << ": " << verdict.sentence;
    }
  }
}

// The same by query tiles: in turn, and in runs that share a dbias.
TEST(EmulatedSm80, FewCtasComputeAllGradients) {
  for (const char* bias : {"", "bhqk", "hqk", "bqk", "qk"}) {
    emulator::set_seed(1);
    Case c;
    c.op = VOLLEY_OP_BACKWARD;
    c.b = 3;
    c.sq = 150;
    c.sk = 70;
    c.set_heads(2, 1);
    c.bias = bias;
    c.deterministic = true;
    Instance instance = build(c);
    instance.options.max_sms = 2;
    const Verdict verdict = check_backward(instance, kBackend);
    EXPECT_EQ(verdict.result, Result::kPassed) << describe(c) << ": " << verdict.sentence;
  }
}

TEST(EmulatedSm80, GradientEdges) { EXPECT_GT(run_suite("gradient edges", 0, 4).passed, 150); }
TEST(EmulatedSm80, GradientBits) { EXPECT_GT(run_suite("gradient bits", 0, 5).passed, 60); }

// Of the gradients plain problems have kernels that fit no SM of 99 KB; there, the extras kernels
// compute them.
TEST(EmulatedSm80, GradientsOnASmallerGpu) {
  emulator::set_device("l40s");
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    emulator::set_seed(seed);
    Case c;
    c.op = VOLLEY_OP_BACKWARD;
    c.dtype = seed % 2 == 0 ? VOLLEY_F16 : VOLLEY_BF16;
    c.d = c.dv = 64 << seed % 3;
    c.sq = 70 + static_cast<int64_t>(seed);
    c.sk = 90;
    c.set_heads(2, 1);
    c.causal = seed % 4 < 2;
    c.seed = seed;
    Instance instance = build(c);
    const Verdict verdict = check_backward(instance, kBackend);
    EXPECT_EQ(verdict.result, Result::kPassed) << describe(c) << ": " << verdict.sentence;
  }
  emulator::set_device(emulator::kDevice);
}

// What a value holds that no query sees has no part in any gradient, not even as 0 times NaN.
TEST(EmulatedSm80, ValuesThatNobodySeesHaveNoGradients) {
  for (const double softcap : {0., 20.}) {  // plain and extras kernels
    for (const int64_t d : {64, 128, 256}) {
      Case c;
      c.op = VOLLEY_OP_BACKWARD;
      c.d = c.dv = d;
      c.sq = 100;
      c.sk = 150;
      c.causal = true;
      c.alignment = VOLLEY_ALIGN_TOP_LEFT;
      c.softcap = softcap;
      Instance instance = build(c);
      for (int64_t j = c.sq; j < c.sk; ++j) {
        for (int64_t x = 0; x < d; ++x) {
          instance[Role::kV].set(instance.index(Role::kV, 0, j, 0, x), x % 2 == 0 ? NAN : INFINITY);
        }
      }
      const Verdict verdict = check_backward(instance, kBackend);
      EXPECT_EQ(verdict.result, Result::kPassed) << describe(c) << ": " << verdict.sentence;
    }
  }
}

// To q's type, the same for all kernels that read it; beyond that type's range it is infinity.
TEST(EmulatedSm80, AnF32DoutIsRoundedOnce) {
  for (const int32_t dtype : {VOLLEY_F16, VOLLEY_BF16}) {
    for (const Layout layout : {Layout::kRows, Layout::kStridedLast}) {
      Case c;
      c.op = VOLLEY_OP_BACKWARD;
      c.dtype = dtype;
      c.out_dtype = VOLLEY_F32;
      c.o_layout = layout;
      c.sq = c.sk = 70;
      c.d = 64;
      c.dv = 72;
      c.sink = true;
      c.deterministic = true;
      Instance as_given = build(c);
      as_given[Role::kDout].set({0, 3, 0, 1}, 1e5);
      Instance rounded = as_given.clone();
      HostTensor& dout = rounded[Role::kDout];
      for (int64_t i = 0; i < dout.size(); ++i) {
        dout.set_flat(i, round_to(dtype, static_cast<float>(dout.flat(i))));
      }
      EXPECT_EQ(std::isinf(dout.at({0, 3, 0, 1})), dtype == VOLLEY_F16);
      for (Instance* instance : {&as_given, &rounded}) {
        ASSERT_EQ(fill_forward(*instance).result, Result::kPassed);
        const Answer answer = run(*instance, kBackend);
        ASSERT_TRUE(answer.ok()) << answer.message << answer.broken;
      }
      for (const Role role : {Role::kDq, Role::kDk, Role::kDv, Role::kDsink}) {
        EXPECT_TRUE(same_bits(as_given[role], rounded[role])) << core::info(role).name;
      }
      EXPECT_EQ(std::isfinite(as_given[Role::kDq].at({0, 3, 0, 0})), dtype == VOLLEY_BF16);
    }
  }
}

class EmulatedProblems : public testing::TestWithParam<int> {};

TEST_P(EmulatedProblems, AgreeWithTheReference) {
  constexpr int64_t kPart = 25;
  const auto first = static_cast<uint64_t>(GetParam()) * kPart;
  const Report report = run_suite("random", kPart, first + 1);
  EXPECT_EQ(report.passed, kPart) << report.refused << " were refused";
}

TEST_P(EmulatedProblems, HaveTheReferencesGradients) {
  constexpr int64_t kPart = 25;
  const auto first = static_cast<uint64_t>(GetParam()) * kPart;
  const Report report = run_suite("gradient random", kPart, first + 1);
  // One in forty sums dbias over queries and wants a fixed order.
  EXPECT_GE(report.passed, kPart - 2) << report.refused << " were refused";
}

TEST(EmulatedSm80, TheBackwardTakesAnyForwardsResults) {
  for (const int32_t forward : {int32_t{VOLLEY_BACKEND_CPU}, kBackend}) {
    expect_right_gradients_after(forward, kBackend, 15);
  }
}

INSTANTIATE_TEST_SUITE_P(Random, EmulatedProblems, testing::Range(0, 12));

INSTANTIATE_TEST_SUITE_P(Emulated, Cases, testing::Values(kBackend),
                         [](const auto& test) { return volley_backend_name(test.param); });

}  // namespace
}  // namespace volley::check
