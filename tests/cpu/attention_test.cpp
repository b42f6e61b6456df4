// SPDX-License-Identifier: BSD-3-Clause
//
// What holds for the CPU backend beside being right: every kernel agrees with the reference, bits
// do not depend on threads, layout or neighbours, NaN goes where it belongs and nowhere else.
#include <array>
#include <cmath>
#include <limits>

#include "attention_cases.h"
#include "cpu/kernel/choose.h"
#include "variable.h"

namespace volley::check {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(CpuAttention, EveryKernelAgreesWithTheReference) {
  for (const Case& c : cpu_cases()) {
    Instance instance = build(c);
    const Oracle oracle = oracle_of(instance);
    for (const core::Kernel* kernel : core::kernels()) {
      if (!core::runs_here(*kernel)) continue;
      const Variable variable("VOLLEY_CPU", kernel->name);
      const Verdict verdict = compare_forward(answer_of(instance.clone()), oracle);
      EXPECT_TRUE(verdict.ok()) << kernel->name << ", " << describe(c) << ": " << verdict.sentence;
    }
  }
}

TEST(CpuAttention, BitsDoNotDependOnThreads) {
  for (const Case& c : cpu_cases()) {
    Instance instance = build(c);
    instance.options.num_threads = 1;
    const Instance one = answer_of(instance.clone());
    for (const int32_t threads : {2, 3, 7}) {
      instance.options.num_threads = threads;
      EXPECT_TRUE(same_outputs(answer_of(instance.clone()), one))
          << describe(c) << ", " << threads << " threads";
    }
  }
}

TEST(CpuAttention, BitsDoNotDependOnLayout) {
  for (Case c : cpu_cases()) {
    const Instance rows = answer_of(build(c));
    for (int32_t layout = 1; layout < static_cast<int32_t>(Layout::kOfAnyValues); ++layout) {
      c.set_layout(static_cast<Layout>(layout));
      EXPECT_TRUE(same_outputs(answer_of(build(c)), rows))
          << describe(c) << ", " << layout_name(c.q_layout);
    }
  }
}

TEST(CpuAttention, ExpandedTensorsAreReadAsTheyAre) {
  Instance full = build({.b = 2, .sq = 70, .sk = 90, .hq = 2, .hk = 2, .d = 40, .dv = 24});
  Instance expanded = full.clone();
  for (const Role role : {Role::kQ, Role::kK, Role::kV}) {
    full[role].fill(0.75);
    expanded[role] = HostTensor(full[role].dtype(), full[role].shape(), {0, 0, 0, 0});
    expanded[role].fill(0.75);
  }
  EXPECT_TRUE(same_outputs(answer_of(expanded.clone()), answer_of(full.clone())));
}

TEST(CpuAttention, BitsDoNotDependOnNeighbours) {
  Case c{.b = 3, .sq = 70, .sk = 150, .hq = 4, .hk = 2, .causal = true, .sink = true};
  const Instance together = answer_of(build(c));
  c.b = 1;
  for (c.first = 0; c.first < 3; ++c.first) {
    const Instance alone = answer_of(build(c));
    for (int64_t i = 0; i < c.sq; ++i) {
      for (int64_t h = 0; h < c.hq; ++h) {
        ASSERT_EQ(alone[Role::kLse].at({0, h, i}), together[Role::kLse].at({c.first, h, i}));
        for (int64_t x = 0; x < c.dv; ++x) {
          ASSERT_EQ(alone[Role::kO].at({0, i, h, x}), together[Role::kO].at({c.first, i, h, x}))
              << "sequence " << c.first << ", query " << i << ", head " << h;
        }
      }
    }
  }
}

// Rows of a group share tiles, so a head's row lies elsewhere in a tile when it has keys alone.
TEST(CpuAttention, BitsDoNotDependOnTheGroup) {
  const Case c{.sq = 75, .sk = 131, .hq = 6, .hk = 2, .d = 48, .left = 50, .right = 9};
  const Instance grouped = build(c);
  Case expanded_case = c;
  expanded_case.hk = 6;
  Instance expanded = build(expanded_case);
  expanded[Role::kQ] = grouped[Role::kQ].clone();
  for (const Role role : {Role::kK, Role::kV}) {
    const int64_t width = role == Role::kK ? c.d : c.dv;
    for (int64_t j = 0; j < c.sk; ++j) {
      for (int64_t h = 0; h < c.hq; ++h) {
        for (int64_t x = 0; x < width; ++x) {
          expanded[role].set({0, j, h, x}, grouped[role].at({0, j, h / c.group(), x}));
        }
      }
    }
  }
  EXPECT_TRUE(same_outputs(answer_of(expanded.clone()), answer_of(grouped.clone())));
}

// A run on `poisoned` must give NaN, in O and LSE, in the rows (i, h) for which row_is_nan(i, h),
// and the bits of a run on `clean` in all others.
template <class RowIsNan>
void compare_rows(const Instance& clean, const Instance& poisoned, const RowIsNan& row_is_nan) {
  const Instance want = answer_of(clean.clone());
  const Instance got = answer_of(poisoned.clone());
  const Case& c = clean.c;
  for (int64_t i = 0; i < c.sq; ++i) {
    for (int64_t h = 0; h < c.hq; ++h) {
      const double lse = got[Role::kLse].at({0, h, i});
      if (row_is_nan(i, h)) {
        ASSERT_TRUE(std::isnan(lse)) << "query " << i << ", head " << h;
      } else {
        ASSERT_EQ(lse, want[Role::kLse].at({0, h, i})) << "query " << i << ", head " << h;
      }
      for (int64_t x = 0; x < c.dv; ++x) {
        const double o = got[Role::kO].at({0, i, h, x});
        if (row_is_nan(i, h)) {
          ASSERT_TRUE(std::isnan(o)) << "query " << i << ", head " << h;
        } else {
          ASSERT_EQ(o, want[Role::kO].at({0, i, h, x})) << "query " << i << ", head " << h;
        }
      }
    }
  }
}

const Case kNanCase{.sq = 140, .sk = 140, .hq = 4, .hk = 2, .d = 32, .dv = 20, .causal = true};

TEST(CpuAttention, NanInAQueryStaysInItsRow) {
  const Instance clean = build(kNanCase);
  Instance poisoned = clean.clone();
  poisoned[Role::kQ].set({0, 77, 1, 5}, kNan);
  compare_rows(clean, poisoned, [](int64_t i, int64_t h) { return i == 77 && h == 1; });
}

TEST(CpuAttention, NanInAKeyReachesTheRowsThatSeeIt) {
  const Instance clean = build(kNanCase);
  Instance poisoned = clean.clone();
  poisoned[Role::kK].set({0, 100, 1, 31}, kNan);
  compare_rows(clean, poisoned, [](int64_t i, int64_t h) { return i >= 100 && h >= 2; });
}

// Key 70 of key head 0 is all NaN; what hides it from the queries before 100 hides all of it.
void expect_hidden(Case c, Role by, double hidden, double seen) {
  (by == Role::kMask ? c.mask : c.bias) = "hqk";
  Instance clean = build(c);
  for (int64_t i = 0; i < c.sq; ++i) {
    for (int64_t h = 0; h < c.hq; ++h) clean[by].set({0, h, i, 70}, i < 100 ? hidden : seen);
  }
  Instance poisoned = clean.clone();
  for (int64_t x = 0; x < c.d; ++x) poisoned[Role::kK].set({0, 70, 0, x}, kNan);
  for (int64_t x = 0; x < c.dv; ++x) poisoned[Role::kV].set({0, 70, 0, x}, kNan);
  compare_rows(clean, poisoned, [](int64_t i, int64_t h) { return i >= 100 && h < 2; });
}

TEST(CpuAttention, NothingOfAHiddenKeyIsUsed) {
  expect_hidden(kNanCase, Role::kMask, 0, 1);
  expect_hidden(kNanCase, Role::kBias, -kInfinity, 0.5);
}

TEST(CpuAttention, NanInTheSinkReachesItsHead) {
  Case c = kNanCase;
  c.sink = true;
  const Instance clean = build(c);
  Instance poisoned = clean.clone();
  poisoned[Role::kSink].set({2}, kNan);
  compare_rows(clean, poisoned, [](int64_t, int64_t h) { return h == 2; });
}

// Values that no row may see, in a tile where other rows do see them, and in a column of their own.
TEST(CpuAttention, SpecialValuesStayInTheirColumn) {
  const Instance clean = build(kNanCase);
  Instance poisoned = clean.clone();
  const std::array<double, 3> special{kNan, kInfinity, -kInfinity};
  for (int64_t x = 0; x < 3; ++x) {
    poisoned[Role::kV].set({0, 70, 0, x}, special[static_cast<size_t>(x)]);
  }
  const Instance want = answer_of(clean.clone());
  const Instance got = answer_of(poisoned.clone());
  EXPECT_TRUE(same_bits(got[Role::kLse], want[Role::kLse]));
  for (int64_t i = 0; i < kNanCase.sq; ++i) {
    for (int64_t h = 0; h < kNanCase.hq; ++h) {
      for (int64_t x = 0; x < kNanCase.dv; ++x) {
        const double o = got[Role::kO].at({0, i, h, x});
        const bool seen = i >= 70 && h < 2 && x < 3;
        if (seen && x == 0) {
          ASSERT_TRUE(std::isnan(o)) << "query " << i << ", head " << h;
        } else if (seen) {
          ASSERT_EQ(o, special[static_cast<size_t>(x)]) << "query " << i << ", head " << h;
        } else {
          ASSERT_EQ(o, want[Role::kO].at({0, i, h, x})) << "query " << i << ", head " << h;
        }
      }
    }
  }
}

TEST(CpuAttention, SinkOfMinusInfinityIsNoSink) {
  Case c = kNanCase;
  c.sk = 30;  // most rows see no key
  const Instance without = answer_of(build(c));
  c.sink = true;
  Instance with = build(c);
  with[Role::kSink].fill(-kInfinity);
  EXPECT_TRUE(same_outputs(answer_of(with.clone()), without));
}

TEST(CpuAttention, RefusesWhatFp32CannotHold) {
  Instance instance = build({.sq = 3, .sk = 3});
  instance.options.scale = 1e39;
  EXPECT_EQ(run(instance, VOLLEY_BACKEND_CPU).reason, VOLLEY_REASON_SCALE);
  instance.options.scale = 1;
  for (const double softcap : {1e39, 1e-60}) {
    instance.options.softcap = softcap;
    EXPECT_EQ(run(instance, VOLLEY_BACKEND_CPU).reason, VOLLEY_REASON_SOFTCAP) << softcap;
  }
}

TEST(CpuAttention, BadVariablesAreErrorsOfThePlan) {
  Instance instance = build({.sq = 3, .sk = 3});
  for (const char* name : {"VOLLEY_CPU", "VOLLEY_THREADS"}) {
    const Variable variable(name, "nonsense");
    for (const int32_t backend : {VOLLEY_BACKEND_CPU, VOLLEY_BACKEND_AUTO}) {
      const Answer answer = run(instance, backend);
      EXPECT_EQ(answer.code, VOLLEY_INVALID_ARGUMENT) << name;
      EXPECT_EQ(answer.reason, VOLLEY_REASON_OPTION) << name;
      EXPECT_NE(answer.message.find(name), std::string::npos) << answer.message;
      EXPECT_EQ(answer.broken, "");
    }
  }
}

}  // namespace
}  // namespace volley::check
