// SPDX-License-Identifier: BSD-3-Clause
//
// Cases about the backward.
#include <array>
#include <utility>

#include "cases.h"
#include "random.h"

namespace volley::check {
namespace {

Case blank_backward(int32_t dtype, int64_t sq, int64_t sk, int64_t head_dim) {
  Case c = blank(dtype, sq, sk, head_dim);
  c.op = VOLLEY_OP_BACKWARD;
  return c;
}

// Of numbers near 1 in a dtype: one rounding, with room for another.
constexpr std::pair<int32_t, double> kRoundings[] = {
    {VOLLEY_F32, 1e-6}, {VOLLEY_F16, 0x1p-10}, {VOLLEY_BF16, 0x1p-7}};

double gradient_at(const Instance& instance, Role role, int64_t n, int64_t i, int64_t h,
                   int64_t x) {
  return instance[role].at(instance.index(role, n, i, h, x));
}

void expect_zero(const HostTensor& gradient) {
  for (int64_t i = 0; i < gradient.size(); ++i) ASSERT_EQ(gradient.flat(i), 0) << "element " << i;
}

// PyTorch #196678: all logits about -120, and a last key tile that is half full.
TEST_P(Cases, GradientsWithAVeryNegativeLse) {
  for (const int64_t s : {64, 192, 320, 640, 704, 768, 832}) {
    for (const char* form : {"causal", "none", "mask"}) {
      Case c = blank_backward(VOLLEY_BF16, s, s, 64);
      c.causal = form == std::string("causal");
      c.mask = form == std::string("mask") ? "qk" : "";
      Instance instance = build(c);
      if (instance[Role::kMask].present()) instance[Role::kMask].fill(1);
      Random random(static_cast<uint64_t>(s));
      const auto tenth = [&](double first) {
        return [&random, first](int64_t, int64_t, int64_t, int64_t x) {
          return x == 0 ? first : 0.1 * random.normal();
        };
      };
      const auto normal = [&](int64_t, int64_t, int64_t, int64_t) { return random.normal(); };
      set_rows(instance, Role::kQ, tenth(1));
      set_rows(instance, Role::kK, tenth(-960));
      set_rows(instance, Role::kV, normal);
      set_rows(instance, Role::kDout, normal);
      expect_right_gradients(instance);
    }
  }
}

// FlashAttention #1778, #402: more queries than keys, by hand.
TEST_P(Cases, GradientsOfMoreQueriesThanKeys) {
  for (const int32_t dtype : {VOLLEY_F32, VOLLEY_BF16}) {
    Case c = blank_backward(dtype, 5, 2, 64);
    c.causal = true;
    Instance instance = build(c);
    set_rows(instance, Role::kQ, 1);
    set_rows(instance, Role::kK, 0);
    set_rows(instance, Role::kV, [](int64_t, int64_t j, int64_t, int64_t) { return 1 + 2 * j; });
    set_rows(instance, Role::kDout, 1);
    if (!gradients_offered(instance)) continue;
    expect_zero(instance[Role::kDq]);
    for (int64_t x = 0; x < 64; ++x) {
      EXPECT_EQ(gradient_at(instance, Role::kDv, 0, 0, 0, x), 1.5);
      EXPECT_EQ(gradient_at(instance, Role::kDv, 0, 1, 0, x), 0.5);
      EXPECT_EQ(gradient_at(instance, Role::kDk, 0, 0, 0, x), -4);
      EXPECT_EQ(gradient_at(instance, Role::kDk, 0, 1, 0, x), 4);
    }
  }
}

TEST_P(Cases, RowsWithoutKeysHaveNoGradient) {
  Case c = blank_backward(VOLLEY_BF16, 2048, 1024, 128);
  if (!affordable(2048. * 1024 * 2 * 128 * 5)) GTEST_SKIP() << "too slow here";
  c.values = Values::kNormal;
  c.set_heads(2, 2);
  c.causal = true;
  Instance instance = build(c);
  if (!gradients_offered(instance)) return;
  for (int64_t i = 0; i < 2048; ++i) {
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t x = 0; x < 128; ++x) {
        const double dq = gradient_at(instance, Role::kDq, 0, i, h, x);
        ASSERT_TRUE(i < 1024 ? dq == 0 : std::isfinite(dq)) << "query " << i;
      }
    }
  }
}

// FlashAttention #443: one key for each long sequence of queries.
TEST_P(Cases, VarlenGradientsWhereAlmostAllRowsAreMasked) {
  Case c = blank_backward(VOLLEY_F16, 256, 3, 32);
  c.values = Values::kNormal;
  c.logit_std = 9;  // as of q and k with a deviation of 3
  c.b = 3;
  c.causal = true;
  c.cu_q = {0, 76, 110, 256};
  c.cu_k = {0, 1, 2, 3};
  Instance instance = build(c);
  if (!gradients_offered(instance)) return;
  expect_zero(instance[Role::kDq]);
  expect_zero(instance[Role::kDk]);
  for (int64_t n = 0; n < c.b; ++n) {
    const int64_t last = query_span(c, n).used - 1;
    for (int64_t x = 0; x < c.dv; ++x) {
      ASSERT_EQ(gradient_at(instance, Role::kDv, n, 0, 0, x),
                gradient_at(instance, Role::kDout, n, last, 0, x));
    }
  }
}

// FlashAttention #1343, PR 2470: sequences without keys; and #1228, PR 2324: rows of nobody.
TEST_P(Cases, GradientsOfEmptySequencesAndRowsOfNobody) {
  for (const bool causal : {false, true}) {
    Case all = blank_backward(VOLLEY_BF16, 144, 135, 128);
    all.values = Values::kNormal;
    all.b = 3;
    all.set_heads(2, 2);
    all.causal = causal;
    all.deterministic = all.batch_invariant = true;
    all.cu_q = {0, 70, 137, 139};  // the last rows belong to nobody
    all.cu_k = {0, 130, 130, 132};
    Instance instance = build(all);
    if (!gradients_offered(instance)) return;
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t x = 0; x < 128; ++x) {
        for (int64_t i = 70; i < 137; ++i) ASSERT_EQ(instance[Role::kDq].at({i, h, x}), 0);
        for (int64_t i = 139; i < 144; ++i) ASSERT_EQ(instance[Role::kDq].at({i, h, x}), 0);
        for (int64_t j = 132; j < 135; ++j) {
          ASSERT_EQ(instance[Role::kDk].at({j, h, x}), 0);
          ASSERT_EQ(instance[Role::kDv].at({j, h, x}), 0);
        }
      }
    }
    for (const int64_t n : {0, 2}) {
      Case alone = all;
      alone.first = n;
      alone.b = 1;
      alone.cu_q.clear();
      alone.cu_k.clear();
      alone.sq = query_span(all, n).used;
      alone.sk = key_span(all, n).used;
      expect_same(build(alone), build(all), n);
    }
  }
}

// The same where no sequence has a key.
TEST_P(Cases, GradientsOfPackedSequencesWithoutKeys) {
  for (const bool causal : {false, true}) {
    Case c = blank_backward(VOLLEY_BF16, 9, 0, 128);
    c.b = 3;
    c.set_heads(2, 2);
    c.causal = causal;
    c.cu_q = {0, 4, 7, 9};
    c.cu_k = {0, 0, 0, 0};
    Instance instance = build(c);
    set_rows(instance, Role::kQ, 1);
    set_rows(instance, Role::kDout, 1);
    if (gradients_offered(instance)) expect_zero(instance[Role::kDq]);
  }
}

TEST_P(Cases, GradientsOfNothing) {
  Case c = blank_backward(VOLLEY_BF16, 9, 0, 128);
  c.set_heads(2, 2);
  Instance dense = build(c);
  set_rows(dense, Role::kQ, 1);
  set_rows(dense, Role::kDout, 1);
  if (gradients_offered(dense)) expect_zero(dense[Role::kDq]);
  c.b = 3;
  c.sq = 0;
  c.sk = 4;
  c.cu_q = {0, 0, 0, 0};
  c.cu_k = {0, 1, 1, 4};
  Instance nothing = build(c);
  set_rows(nothing, Role::kK, 1);
  set_rows(nothing, Role::kV, 1);
  if (!gradients_offered(nothing)) return;
  expect_zero(nothing[Role::kDk]);
  expect_zero(nothing[Role::kDv]);
  c.b = 0;  // rows, but nobody to own them
  c.sq = 3;
  c.cu_q = c.cu_k = {0};
  for (c.deterministic = false;; c.deterministic = true) {
    Instance nobody = build(c);
    if (!gradients_offered(nobody)) return;
    for (const Role role : {Role::kDq, Role::kDk, Role::kDv}) expect_zero(nobody[role]);
    if (c.deterministic) break;
  }
}

// FlashAttention #355, #1149: dO through a transpose, as every second row, as one expanded number.
TEST_P(Cases, OutputGradientWithOddStrides) {
  Case c = blank_backward(VOLLEY_F16, 32, 32, 128);
  c.values = Values::kNormal;
  c.b = 2;
  c.set_heads(4, 1);
  c.causal = true;
  Instance plain = build(c);
  if (!gradients_offered(plain)) return;
  const auto expect_equal = [&](const Instance& want, HostTensor dout) {
    Instance got = want.clone();
    got[Role::kDout] = std::move(dout);
    ASSERT_TRUE(gradients_offered(got));
    for (const Role role : {Role::kDq, Role::kDk, Role::kDv}) {
      EXPECT_TRUE(same_bits(got[role], want[role])) << core::info(role).name;
    }
  };
  const std::vector<int64_t> shape = plain[Role::kDout].shape();
  for (const std::vector<int64_t>& stride :
       {std::vector<int64_t>{16384, 128, 4096, 1}, {32768, 1024, 128, 1}}) {
    HostTensor dout(VOLLEY_F16, shape, stride);
    for (int64_t i = 0; i < dout.size(); ++i) dout.set_flat(i, plain[Role::kDout].flat(i));
    expect_equal(plain, dout);
  }
  plain[Role::kDout].fill(1);
  ASSERT_TRUE(gradients_offered(plain));
  HostTensor expanded(VOLLEY_F16, shape, {0, 0, 0, 0});
  expanded.fill(1);
  expect_equal(plain, expanded);
}

// FlashAttention #404, #1137: with loss = sum of LSE, dq = scale * P k and dv = 0.
TEST_P(Cases, GradientOfLseAlone) {
  for (const auto& [dtype, bound] : kRoundings) {
    Case c = blank_backward(dtype, 64, 300, 64);
    c.values = Values::kNormal;
    c.lse_gradient = true;
    Instance instance = build(c);
    instance[Role::kV] = instance[Role::kK].clone();  // so that o = P k
    instance[Role::kDlse].fill(1);
    set_rows(instance, Role::kDout, 0);
    if (!gradients_offered(instance)) continue;
    expect_zero(instance[Role::kDv]);
    for (int64_t i = 0; i < instance[Role::kDq].size(); ++i) {
      ASSERT_NEAR(instance[Role::kDq].flat(i), instance[Role::kO].flat(i) / 8,
                  dtype == VOLLEY_F32 ? bound : bound / 16);  // they are small
    }
  }
}

// FlashAttention PR 2402: the slope of a softcap.
TEST_P(Cases, GradientThroughASoftcap) {
  for (const auto& [dtype, bound] : kRoundings) {
    Case c = blank_backward(dtype, 1, 2, 1);
    c.scale = 1;
    c.softcap = 2;
    Instance instance = build(c);
    set_rows(instance, Role::kQ, 2);
    const auto one_zero = [](int64_t, int64_t j, int64_t, int64_t) { return j == 0 ? 1.0 : 0.0; };
    set_rows(instance, Role::kK, one_zero);
    set_rows(instance, Role::kV, one_zero);
    set_rows(instance, Role::kDout, 1);
    if (!gradients_offered(instance)) continue;
    EXPECT_NEAR(instance[Role::kO].flat(0), 0.82101, 5 * bound);
    EXPECT_NEAR(instance[Role::kDk].flat(0), 2 * 0.061717, 2 * bound);  // q times d o / d logit
  }
}

// FlashAttention #1797, PR 2706: a sink of 0 beside two logits of 0 takes a third.
TEST_P(Cases, GradientOfASink) {
  for (const auto& [dtype, bound] : kRoundings) {
    Case c = blank_backward(dtype, 1, 2, 8);
    c.sink = true;
    Instance instance = build(c);
    instance[Role::kSink].fill(0);
    set_rows(instance, Role::kQ, 0);
    set_rows(instance, Role::kK, 1);
    set_rows(instance, Role::kV, [](int64_t, int64_t j, int64_t, int64_t x) { return x + 3 * j; });
    set_rows(instance, Role::kDout, [](int64_t, int64_t, int64_t, int64_t x) { return 1 + x; });
    if (!gradients_offered(instance)) continue;
    double product = 0;
    for (int64_t x = 0; x < 8; ++x) {
      const double wanted = (2. * static_cast<double>(x) + 3) / 3;
      EXPECT_NEAR(instance[Role::kO].flat(x), wanted, bound * wanted);
      product += (1. + static_cast<double>(x)) * wanted;
    }
    EXPECT_NEAR(instance[Role::kDsink].flat(0), -product / 3, bound * product);
  }
}

// Sinks that are no numbers, of every type and stride. The first rows see no key: their dO is
// nobody's business, their dlse is the sink's.
TEST_P(Cases, GradientsOfSpecialSinks) {
  for (const int32_t dtype : {VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16}) {
    Case c = blank_backward(VOLLEY_BF16, 70, 50, 32);
    c.values = Values::kNormal;
    c.b = 2;
    c.set_heads(4, 4);
    c.causal = c.sink = true;
    c.lse_gradient = dtype != VOLLEY_F16;
    c.accumulate = dtype == VOLLEY_BF16;
    Instance instance = build(c);
    const double sinks[] = {-kInfinity, kInfinity, std::nan(""), 0.25};
    instance[Role::kSink] = HostTensor(dtype, {4}, {-2});
    for (int64_t h = 0; h < 4; ++h) instance[Role::kSink].set({h}, sinks[h]);
    instance[Role::kDsink] = HostTensor(VOLLEY_F32, {4}, {3});
    for (int64_t at = 0; at < 20 * 4 * 32; ++at) instance[Role::kDout].set_flat(at, std::nan(""));
    Instance exact = instance.clone();
    if (!gradients_offered(instance)) return;
    fill_forward(exact);
    ASSERT_TRUE(run(exact, VOLLEY_BACKEND_REFERENCE).ok());
    for (int64_t h = 0; h < 4; ++h) {
      const double got = instance[Role::kDsink].at({h}), wanted = exact[Role::kDsink].at({h});
      EXPECT_EQ(std::isnan(got), h == 1 || h == 2) << "head " << h;
      if (std::isnan(got)) continue;
      EXPECT_NEAR(got, wanted, 2e-2 + 1e-3 * std::abs(wanted)) << "head " << h;
      for (int64_t i = 0; i < 70; ++i) {
        const double dq = gradient_at(instance, Role::kDq, 0, i, h, 0);
        EXPECT_NEAR(dq, gradient_at(exact, Role::kDq, 0, i, h, 0), 0.05) << "query " << i;
      }
    }
  }
}

// A gradient of the bias that is a view of a larger tensor.
TEST_P(Cases, BiasGradientsWithOddStrides) {
  for (const bool summed : {false, true}) {
    for (const int32_t dtype : {VOLLEY_F32, VOLLEY_F16}) {
      Case c = blank_backward(VOLLEY_F16, 33, 40, 32);
      c.values = Values::kNormal;
      c.set_heads(2, 1);
      c.bias = summed ? "hk" : "hqk";  // and b is 1
      c.bias_dtype = dtype;
      c.accumulate = dtype == VOLLEY_F16;
      c.batch_invariant = !summed;
      Instance instance = build(c);
      const std::vector<int64_t> shape = instance[Role::kDbias].shape();
      instance[Role::kDbias] = HostTensor(dtype, shape, {7777, -shape[2] * 90, 90, 2});
      expect_right_gradients(instance);
    }
  }
}

}  // namespace
}  // namespace volley::check
