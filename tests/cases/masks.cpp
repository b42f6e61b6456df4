// SPDX-License-Identifier: BSD-3-Clause
//
// Cases about the band mask: more queries than keys, equivalent ways to say causal, windows.
#include "cases.h"

namespace volley::check {
namespace {

// FlashAttention #1778, #402: causal, five queries, two keys, by hand.
TEST_P(Cases, CausalWithMoreQueriesThanKeysByHand) {
  for (const int32_t dtype : {VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16}) {
    Case c = blank(dtype, 5, 2, 64);
    c.causal = true;
    Instance instance = build(c);
    set_rows(instance, Role::kQ, 1);
    set_rows(instance, Role::kK, 0);
    set_rows(instance, Role::kV,
             [](int64_t, int64_t j, int64_t, int64_t) { return j == 0 ? 1.0 : 3.0; });
    if (!offered(instance)) continue;
    const double o[] = {0, 0, 0, 1, 2};
    const double lse[] = {-kInfinity, -kInfinity, -kInfinity, 0, std::log(2)};
    for (int64_t i = 0; i < 5; ++i) {
      expect_row(instance, 0, i, o[i]);
      EXPECT_NEAR(std::exp(instance.lse_at(0, 0, i)), std::exp(lse[i]), 1e-6);
    }
  }
}

TEST_P(Cases, CausalWithMoreQueriesThanKeys) {
  Case c = blank(VOLLEY_BF16, 2048, 1024, 128);
  c.values = Values::kNormal;
  c.set_heads(2, 2);
  c.causal = true;
  Instance instance = build(c);
  if (offered(instance)) {
    for (int64_t i = 0; i < 1024; ++i) {
      expect_row(instance, 0, i, 0);
      ASSERT_EQ(instance.lse_at(0, 0, i), -kInfinity);
    }
    const Verdict verdict = compare_forward(instance, oracle_of(instance));
    EXPECT_TRUE(verdict.ok()) << verdict.sentence;
  }
  c.alignment = VOLLEY_ALIGN_TOP_LEFT;
  expect_right(build(c));
}

// FlashAttention #1133: the same mask said in four ways. The long one is the report's, in fp16;
// bf16 is for the backends that take nothing else.
TEST_P(Cases, EquivalentWaysToSayCausal) {
  for (const int32_t dtype : {VOLLEY_F16, VOLLEY_BF16}) {
    for (const int64_t s : {512, 16384}) {
      const auto length = static_cast<double>(s);
      const bool other_dtype = dtype == VOLLEY_BF16 && backend() != VOLLEY_BACKEND_SM90;
      if (!affordable(length * length * 8 * 128) || (s > 512 && other_dtype)) continue;
      Case causal = blank(dtype, s, s, 128);
      causal.values = Values::kNormal;
      causal.set_heads(8, 8);
      causal.causal = true;
      Instance first = build(causal);
      if (!offered(first)) continue;
      Case window = causal;
      window.values = Values::kNone;
      window.causal = false;
      window.right = 0;
      for (const int64_t left : {int64_t{-1}, s, s - 1}) {
        window.left = left;
        Instance other = build(window);
        for (const Role role : {Role::kQ, Role::kK, Role::kV}) other[role] = first[role];
        if (!offered(other)) continue;
        if (left == -1) {
          EXPECT_TRUE(same_bits(other[Role::kO], first[Role::kO]));
          EXPECT_TRUE(same_bits(other[Role::kLse], first[Role::kLse]));
        }
        for (int64_t i = 0; i < other[Role::kO].size(); ++i) {
          const double wanted = first[Role::kO].flat(i);
          ASSERT_NEAR(other[Role::kO].flat(i), wanted, ulp(dtype, wanted));
        }
      }
    }
  }
}

TEST_P(Cases, AWindowOfOneKeyCopiesItsValue) {
  Case c = blank(VOLLEY_F16, 512, 512, 128);
  c.values = Values::kNormal;
  c.set_heads(8, 8);
  c.left = c.right = 0;
  Instance instance = build(c);
  if (!offered(instance)) return;
  EXPECT_TRUE(same_bits(instance[Role::kO], instance[Role::kV]));
}

TEST_P(Cases, ANegativeWindowIsRefused) {
  Instance instance = build(blank(VOLLEY_BF16, 16, 16, 64));
  instance.options.window_left = -3;
  const Answer answer = run(instance, backend());
  EXPECT_EQ(answer.code, VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(answer.reason, VOLLEY_REASON_WINDOW);
  EXPECT_EQ(answer.broken, "");
}

// Every query head with key heads of its own.
Instance expand_heads(const Instance& grouped) {
  Case c = grouped.c;
  const int64_t group = c.group();
  c.hk = c.hq;
  Instance expanded = build(c);
  for (const Role role : {Role::kK, Role::kV}) {
    set_rows(expanded, role, [&](int64_t n, int64_t j, int64_t h, int64_t x) {
      return grouped[role].at(grouped.index(role, n, j, h / group, x));
    });
  }
  return expanded;
}

// The key at `distance` before the last query answers that query with logit +30 and value 1000.
void plant_bait(Instance& instance, int64_t distance) {
  const Case& c = instance.c;
  for (int64_t n = 0; n < c.b; ++n) {
    for (int64_t h = 0; h < c.hk; ++h) {
      double square = 0;
      const auto q = [&](int64_t x) {
        return instance[Role::kQ].at({n, c.sq - 1, h * c.group(), x});
      };
      for (int64_t x = 0; x < c.d; ++x) square += q(x) * q(x);
      const double factor = 30 * std::sqrt(static_cast<double>(c.d)) / square;
      const int64_t j = c.sk - 1 - distance;
      for (int64_t x = 0; x < c.d; ++x) {
        instance[Role::kK].set({n, j, h, x}, factor * q(x));
        instance[Role::kV].set({n, j, h, x}, 1000);
      }
    }
  }
}

// vLLM #17476: grouped heads, a window, short queries; the best match lies outside the window.
TEST_P(Cases, GroupedHeadsWithAWindowAndShortQueries) {
  for (const int64_t sq : {1, 7, 1200}) {
    if (!affordable(static_cast<double>(sq) * 1200 * 48 * 256)) continue;
    Case c = blank(VOLLEY_BF16, sq, 1200, 128);
    c.values = Values::kNormal;
    c.b = 2;
    c.set_heads(24, 2);
    c.causal = true;
    c.left = 255;
    Instance instance = build(c);
    plant_bait(instance, 300);
    if (!offered(instance)) return;
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t h = 0; h < 24; ++h) {
        for (int64_t x = 0; x < 128; ++x) ASSERT_LT(std::abs(o_at(instance, n, sq - 1, h, x)), 10);
      }
    }
    if (sq <= 7) {
      const Verdict verdict = compare_forward(instance, oracle_of(instance));
      EXPECT_TRUE(verdict.ok()) << verdict.sentence;
    }
    Instance expanded = expand_heads(instance);
    ASSERT_TRUE(same_bits(expanded[Role::kQ], instance[Role::kQ]));
    ASSERT_TRUE(offered(expanded));
    for (int64_t i = 0; i < instance[Role::kO].size(); ++i) {
      const double wanted = expanded[Role::kO].flat(i);
      ASSERT_NEAR(instance[Role::kO].flat(i), wanted, ulp(VOLLEY_BF16, wanted)) << i;
    }
  }
}

}  // namespace
}  // namespace volley::check
