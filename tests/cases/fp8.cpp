// SPDX-License-Identifier: BSD-3-Clause
//
// Cases about e4m3 operands and their scales.
#include "cases.h"
#include "random.h"

namespace volley::check {
namespace {

// vLLM #23813, FlashAttention PR 2250: uniform weights over a long context. The mean of each
// column must not lose precision with length.
TEST_P(Cases, Fp8SumOverALongContext) {
  const double values[] = {0.5625, 0.875, 1.0, 1.125};
  double first_error = 0;
  for (const int64_t sk : {1024, 8192, 32768, 131072}) {
    if (!affordable(64.0 * 8 * 256 * static_cast<double>(sk))) continue;
    Case c = blank(VOLLEY_E4M3, 64, sk, 128);
    c.set_heads(8, 1);
    Instance instance = build(c);
    Random random(static_cast<uint64_t>(sk));
    std::vector<double> mean(128, 0);
    set_rows(instance, Role::kQ, 1);
    set_rows(instance, Role::kK, 0);
    set_rows(instance, Role::kV, [&](int64_t, int64_t, int64_t, int64_t x) {
      const double value = values[random.integer(0, 3)];
      mean[static_cast<size_t>(x)] += value / static_cast<double>(sk);
      return value;
    });
    if (!offered(instance)) return;
    double error = 0;
    for (int64_t x = 0; x < 128; ++x) {
      const double wanted = mean[static_cast<size_t>(x)];
      for (int64_t i = 0; i < 64; ++i) {
        error = std::max(error, std::abs(o_at(instance, 0, i, 7, x) / wanted - 1));
      }
    }
    EXPECT_LE(error, 0x1p-8) << sk;
    if (first_error == 0) first_error = error;
    EXPECT_LE(error, 1.5 * first_error) << sk;
  }
}

// The second part: random operands, the relative error in the L2 norm.
TEST_P(Cases, Fp8ErrorDoesNotGrowWithLength) {
  double first_error = 0;
  for (const int64_t sk : {1024, 8192, 32768, 131072}) {
    if (!affordable(64.0 * 8 * 256 * static_cast<double>(sk))) continue;
    Case c = blank(VOLLEY_E4M3, 64, sk, 128);
    c.values = Values::kNormal;
    c.set_heads(8, 1);
    Instance instance = build(c);
    if (!offered(instance)) return;
    const Oracle oracle = exact_of(instance);
    double error = 0;
    double norm = 0;
    for (int64_t i = 0; i < oracle.o.size(); ++i) {
      error += std::pow(instance[Role::kO].flat(i) - oracle.o.flat(i), 2);
      norm += std::pow(oracle.o.flat(i), 2);
    }
    error = std::sqrt(error / norm);
    if (first_error == 0) first_error = error;
    EXPECT_LE(error, 1.5 * first_error) << sk;
  }
}

Case scaled_case() {
  Case c = blank(VOLLEY_E4M3, 192, 192, 64);
  c.values = Values::kNormal;
  c.b = 2;
  c.set_heads(8, 2);
  c.descale = true;
  return c;
}

Instance with_scales(double q, double k, double v) {
  Instance instance = build(scaled_case());
  instance[Role::kQDescale].fill(q);
  instance[Role::kKDescale].fill(k);
  instance[Role::kVDescale].fill(v);
  return instance;
}

// FlashAttention #1699, #1176, #1710: scales are per batch and key head, and exact for powers of 2.
TEST_P(Cases, Fp8ValueScalesArePerBatchAndKeyHead) {
  Instance plain = with_scales(1, 1, 1);
  Instance doubled = with_scales(1, 1, 1);
  for (const int64_t block : {0, 1}) doubled[Role::kVDescale].set({1, 0, block}, 2);
  if (!offered(plain) || !offered(doubled)) return;
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t i = 0; i < 192; ++i) {
      for (int64_t h = 0; h < 8; ++h) {
        const double factor = n == 1 && h < 4 ? 2 : 1;
        for (int64_t x = 0; x < 64; ++x) {
          ASSERT_EQ(o_at(doubled, n, i, h, x), factor * o_at(plain, n, i, h, x));
        }
      }
    }
  }
}

TEST_P(Cases, Fp8PowersOfTwoMoveBetweenScales) {
  const double scale = 0.125;
  Instance plain = with_scales(1, 1, 1);
  plain.options.scale = scale;
  plain.c.scale = scale;
  Instance query = with_scales(4, 0.25, 1);
  query.options.scale = scale;
  query.c.scale = scale;
  Instance softmax = with_scales(4, 2, 1);
  softmax.options.scale = scale / 8;
  softmax.c.scale = scale / 8;
  expect_same(plain.clone(), query);
  expect_same(plain.clone(), softmax);
}

TEST_P(Cases, Fp8MissingScalesMeanOne) {
  Instance missing = with_scales(1, 1, 1);
  for (const Role role : {Role::kQDescale, Role::kKDescale, Role::kVDescale}) missing[role] = {};
  expect_same(with_scales(1, 1, 1), missing);
}

TEST_P(Cases, Fp8BlockScalesAreExactPowersOfTwo) {
  Instance plain = with_scales(1, 1, 1);
  Instance blocked = with_scales(1, 1, 1);
  for (int64_t j = 128; j < 192; ++j) {  // the second block of sequence 0, key head 1
    for (int64_t x = 0; x < 64; ++x) {
      const double coarse =
          std::ldexp(std::round(std::ldexp(plain[Role::kK].at({0, j, 1, x}), 1)), -1);
      plain[Role::kK].set({0, j, 1, x}, coarse);
      blocked[Role::kK].set({0, j, 1, x},
                            coarse / 8);  // exact: a multiple of 2^-4 and no more bits
    }
  }
  blocked[Role::kKDescale].set({0, 1, 1}, 8);
  expect_same(plain, blocked);
}

TEST_P(Cases, Fp8ScalesOfAWrongShapeAreRefused) {
  Instance instance = with_scales(1, 1, 1);
  instance[Role::kKDescale] = HostTensor(VOLLEY_F32, {2, 3, 2});
  const Answer answer = run(instance, backend());
  EXPECT_EQ(answer.code, VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(answer.reason, VOLLEY_REASON_SHAPE);
  EXPECT_EQ(answer.broken, "");
}

}  // namespace
}  // namespace volley::check
