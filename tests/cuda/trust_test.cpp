// SPDX-License-Identifier: BSD-3-Clause
//
// Maxima that are taken from a tile's first keys on trust: tiles in which they are good enough next
// to tiles in which they are not, in one CTA's stream. Whatever is computed again, or moved in the
// middle, must be right, come out the same each time, and leave its neighbours alone.
#include "on_hopper.h"

namespace volley::check {
namespace {

class Trust : public OnHopper {};

// From key `from` on, k along the first axis adds `growth` to the logits of the queries for which
// grows(n, i, h); those of all others stay normal.
template <class Grows>
Instance growing(const Case& c, double growth, int64_t from, const Grows& grows) {
  Instance instance = build(c);
  const double root = std::sqrt(static_cast<double>(c.d));
  set_rows(instance, Role::kQ, [&](int64_t n, int64_t i, int64_t h, int64_t x) {
    if (x == 0) return grows(n, i, h) ? root : 0.0;
    return instance[Role::kQ].at(instance.index(Role::kQ, n, i, h, x));
  });
  set_rows(instance, Role::kK, [&](int64_t n, int64_t j, int64_t h, int64_t x) {
    if (x == 0) return j >= from ? growth : 0.0;
    return instance[Role::kK].at(instance.index(Role::kK, n, j, h, x));
  });
  return instance;
}

bool every_fifth_tile(int64_t n, int64_t i, int64_t h) { return (n + i / 64 + h) % 5 == 0; }
bool a_row_here_and_there(int64_t n, int64_t i, int64_t h) { return (7 * n + i + h) % 97 == 5; }

// The growth of a logit at which P leaves fp16, comes near the end of fp32, leaves it, leaves all.
constexpr std::array<double, 5> kGrowths{9, 12, 65, 90, 3000};

TEST_F(Trust, SomeTilesOnly) {
  for (const int32_t dtype : kHalves) {
    for (const HeadDims dims : {HeadDims{64, 64}, {128, 128}, {192, 128}, {256, 256}}) {
      for (const double growth : kGrowths) {
        Case c;
        c.dtype = dtype;
        c.d = dims.d, c.dv = dims.dv;
        c.set_heads(2, 1);
        c.sq = 260, c.sk = 300;
        c.causal = growth != 65;
        Instance tiles = growing(c, growth, 40, every_fifth_tile);
        tiles.options.max_sms = 2;
        expect_right(tiles);
        expect_right(growing(c, growth, 250, a_row_here_and_there));
      }
    }
  }
}

TEST_F(Trust, TheSameBitsEachTimeOnAnyNumberOfSms) {
  for (const int32_t dtype : kHalves) {
    for (const double growth : kGrowths) {
      Case c;
      c.dtype = dtype;
      c.b = 3;
      c.set_heads(4, 2);
      c.sq = 200, c.sk = 260;
      c.causal = growth > 50;
      Instance want = growing(c, growth, 60, a_row_here_and_there);
      for (const int32_t max_sms : {0, 1, 2, 7, 131}) {
        Instance again = growing(c, growth, 60, a_row_here_and_there);
        again.options.max_sms = max_sms;
        expect_same(want, again);
      }
    }
  }
}

// One sequence of 600 grows; each other one must have the bits that it has alone, wherever it lies
// in the stream.
TEST_F(Trust, ATileThatIsRepeatedLeavesAllOthersAlone) {
  for (const int32_t dtype : kHalves) {
    Case c;
    c.dtype = dtype;
    c.b = 1100;
    c.sq = 8, c.sk = 70;
    Instance all =
        growing(c, 300, 40, [](int64_t n, int64_t, int64_t) { return n == 3 || n == 500; });
    all.options.max_sms = 1;
    all.options.batch_invariant = 1;
    Case alone = c;
    alone.b = 1;
    for (const int64_t n : {0, 2, 4, 499, 512, 515, 1012, 1024, 1027}) {
      alone.first = n;
      Instance instance = growing(alone, 300, 40, [](int64_t, int64_t, int64_t) { return false; });
      instance.options.batch_invariant = 1;
      expect_same(instance, all, n);
    }
  }
}

// A CTA remembers so many tiles; more than that are computed by a second launch.
TEST_F(Trust, MoreTilesThanACtaRemembers) {
  Case c;
  c.b = 16500;
  c.sq = 4, c.sk = 70;
  Instance instance =
      growing(c, 300, 40, [](int64_t n, int64_t, int64_t) { return n % 8000 == 450; });
  instance.options.max_sms = 1;
  expect_right(instance);
}

// Keys whose logits are -infinity weigh nothing, also when they are all that is trusted.
TEST_F(Trust, TheFirstKeysWeighNothing) {
  for (const int32_t dtype : kHalves) {
    for (const double rest : {-400.0, 0.0, 5.0, 200.0}) {
      for (const bool causal : {false, true}) {
        Case c;
        c.dtype = dtype;
        c.sq = 130, c.sk = 200;
        c.causal = causal;
        Instance instance = growing(c, rest, 0, [](int64_t, int64_t, int64_t) { return true; });
        for (int64_t j = 0; j < 100; ++j) instance[Role::kK].set({0, j, 0, 0}, -kInfinity);
        expect_right(instance);
      }
    }
  }
}

TEST_F(Trust, RowsOfNanSpoilNoOthers) {
  for (const int32_t dtype : kHalves) {
    for (const bool packed : {false, true}) {
      Case c;
      c.dtype = dtype;
      c.set_heads(2, 1);
      c.sq = 200, c.sk = 150;
      c.sink = packed;
      if (packed) c.cu_q = {0, 200}, c.cu_k = {0, 150};
      Instance instance = build(c);
      for (const int64_t i : {0, 63, 64, 150}) {
        instance[Role::kQ].set(instance.index(Role::kQ, 0, i, 1, 5), std::nan(""));
      }
      expect_right(instance);
      if (!packed) continue;
      instance[Role::kSink].fill(-kInfinity);
      expect_right(instance);
    }
  }
}

}  // namespace
}  // namespace volley::check
