// SPDX-License-Identifier: BSD-3-Clause
//
// What holds for the CPU backend's gradients beside being right: every kernel agrees with the
// reference, bits do not depend on the number of threads, pages may be shared, NaN stays with those
// who use it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cpu/kernel/choose.h"
#include "edge_cases.h"
#include "runner.h"
#include "variable.h"

namespace volley::check {
namespace {

constexpr Role kGradients[] = {Role::kDq, Role::kDk, Role::kDv, Role::kDbias, Role::kDsink};

std::vector<Case> option_cases(int32_t dtype) {
  std::vector<Case> cases;
  for (const Case& c : gradient_cases(dtype)) {
    if (c.b == 2 || c.sk > 500) cases.push_back(c);
  }
  return cases;
}

// The gradients of a CPU run; a failed call fails the test. o and lse are there.
Instance gradients_of(Instance instance) {
  const Answer answer = run(instance, VOLLEY_BACKEND_CPU);
  EXPECT_TRUE(answer.ok()) << describe(instance.c) << ": " << answer.message << answer.broken;
  return instance;
}

Instance with_forward(const Case& c) {
  Instance instance = build(c);
  EXPECT_TRUE(fill_forward(instance).ok()) << describe(c);
  return instance;
}

bool same_gradients(const Instance& a, const Instance& b) {
  return std::all_of(std::begin(kGradients), std::end(kGradients),
                     [&](Role role) { return same_bits(a[role], b[role]); });
}

TEST(CpuGradients, EveryKernelAgreesWithTheReference) {
  for (const core::Kernel* kernel : core::kernels()) {
    if (!core::runs_here(*kernel)) continue;
    const Variable variable("VOLLEY_CPU", kernel->name);
    for (const Case& c : option_cases(VOLLEY_F32)) {
      Instance instance = build(c);
      const Verdict verdict = check_backward(instance, VOLLEY_BACKEND_CPU);
      EXPECT_EQ(verdict.result, Result::kPassed)
          << kernel->name << ", " << describe(c) << ": " << verdict.sentence;
    }
  }
}

// Of every dtype, in rows of every length up to two vectors: o and dO may differ in theirs.
TEST(CpuGradients, KernelsSumTheProductsOfTwoRows) {
  for (const core::Kernel* kernel : core::kernels()) {
    if (!core::runs_here(*kernel)) continue;
    for (const int32_t a_dtype : {VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16}) {
      for (const int32_t b_dtype : {VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16}) {
        HostTensor a(a_dtype, {33}, {3});
        HostTensor b(b_dtype, {33});
        double sum = 0;
        for (int64_t n = 0; n <= 33; ++n) {
          const core::SourceRow rows[] = {
              {static_cast<char*>(a.data()), 3 * (a_dtype == VOLLEY_F32 ? 4 : 2), a_dtype},
              {static_cast<char*>(b.data()), b_dtype == VOLLEY_F32 ? 4 : 2, b_dtype}};
          ASSERT_EQ(kernel->dot(rows[0], rows[1], n), sum) << kernel->name << ", n = " << n;
          if (n == 33) break;
          a.set({n}, n == 7 ? NAN : static_cast<double>(n - 11));
          b.set({n}, n == 7 ? 0 : static_cast<double>(n % 5));
          if (n != 7) sum += a.at({n}) * b.at({n});
        }
      }
    }
  }
}

// One thread takes whole heads, many take chunks of them.
TEST(CpuGradients, BitsDoNotDependOnThreads) {
  for (const Case& c : option_cases(VOLLEY_BF16)) {
    Instance instance = with_forward(c);
    instance.options.num_threads = 1;
    const Instance one = gradients_of(instance.clone());
    for (const int32_t threads : {2, 5}) {
      instance.options.num_threads = threads;
      EXPECT_TRUE(same_gradients(gradients_of(instance.clone()), one))
          << describe(c) << ", " << threads << " threads";
    }
  }
}

TEST(CpuGradients, ASecondRunHasTheSameBits) {
  Case c{.op = VOLLEY_OP_BACKWARD, .b = 2, .sq = 700, .sk = 700, .hq = 4, .hk = 2, .causal = true};
  Instance instance = with_forward(c);
  instance.options.deterministic = 1;
  const Instance first = gradients_of(instance.clone());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(same_gradients(gradients_of(instance.clone()), first)) << "run " << i;
  }
}

// Both sequences read the same pages, one of them twice: gradients are summed where it is read.
TEST(CpuGradients, PagesMayBeShared) {
  Case c{.op = VOLLEY_OP_BACKWARD,
         .dtype = VOLLEY_F32,
         .b = 2,
         .sq = 20,
         .sk = 40,
         .hq = 4,
         .hk = 2,
         .d = 16,
         .dv = 16,
         .used_k = {40, 33},
         .page = 8};
  for (c.accumulate = false;; c.accumulate = true) {
    Instance instance = build(c);
    for (int64_t slot = 0; slot < 5; ++slot) {
      const double page = instance[Role::kPageTable].at({0, slot == 3 ? 1 : slot});
      for (const int64_t n : {0, 1}) instance[Role::kPageTable].set({n, slot}, page);
    }
    for (const Role role : {Role::kK, Role::kV}) {
      for (int64_t i = 0; i < instance[role].size(); ++i) {
        if (std::isnan(instance[role].flat(i))) instance[role].set_flat(i, 0.5);
      }
    }
    const Verdict verdict = check_backward(instance, VOLLEY_BACKEND_CPU);
    EXPECT_EQ(verdict.result, Result::kPassed) << describe(c) << ": " << verdict.sentence;
    if (c.accumulate) break;
  }
}

// dO of a row that sees no key is not used; of one that does, it shows in what depends on it.
TEST(CpuGradients, NanInTheOutputsGradient) {
  const Case c{.op = VOLLEY_OP_BACKWARD,
               .sq = 200,
               .sk = 150,
               .hq = 2,
               .hk = 2,
               .d = 32,
               .dv = 16,
               .causal = true};
  const Instance clean = with_forward(c);
  const Instance want = gradients_of(clean.clone());
  Instance unused = clean.clone();
  for (int64_t x = 0; x < 16; ++x) unused[Role::kDout].set({0, 49, 1, x}, NAN);
  EXPECT_TRUE(same_gradients(gradients_of(unused.clone()), want));

  Instance used = clean.clone();
  used[Role::kDout].set({0, 77, 1, 3}, NAN);
  const Instance got = gradients_of(used.clone());
  for (int64_t i = 0; i < c.sq; ++i) {
    for (int64_t h = 0; h < c.hq; ++h) {
      const bool spoilt = i == 77 && h == 1;
      for (int64_t x = 0; x < c.d; ++x) {
        const double dq = got[Role::kDq].at({0, i, h, x});
        ASSERT_TRUE(spoilt ? std::isnan(dq) : dq == want[Role::kDq].at({0, i, h, x}))
            << "query " << i << ", head " << h;
      }
    }
  }
  for (int64_t j = 0; j <= 27; ++j) {  // the keys that query 77 sees
    ASSERT_TRUE(std::isnan(got[Role::kDv].at({0, j, 1, 3}))) << "key " << j;
    ASSERT_EQ(got[Role::kDv].at({0, j, 0, 3}), want[Role::kDv].at({0, j, 0, 3})) << "key " << j;
  }
}

TEST(CpuGradients, RefusesFp64Inputs) {
  const Case c{.op = VOLLEY_OP_BACKWARD, .sq = 3, .sk = 3};
  for (const Role role : {Role::kO, Role::kDout, Role::kLse}) {
    Instance instance = with_forward(c);
    instance[role] = HostTensor(VOLLEY_F64, instance[role].shape());
    if (role == Role::kO) instance[Role::kDout] = HostTensor(VOLLEY_F64, instance[role].shape());
    if (role == Role::kDout) continue;  // it follows o
    const Answer answer = run(instance, VOLLEY_BACKEND_CPU);
    EXPECT_EQ(answer.code, VOLLEY_NOT_OFFERED) << core::info(role).name << answer.message;
    EXPECT_EQ(answer.reason, VOLLEY_REASON_DTYPE) << answer.message;
    EXPECT_EQ(answer.broken, "");
  }
}

}  // namespace
}  // namespace volley::check
