// SPDX-License-Identifier: BSD-3-Clause
//
// Cases about lengths: unused cache slots, empty sequences, rows behind the last one.
#include <algorithm>
#include <chrono>

#include "cases.h"

namespace volley::check {
namespace {

// FlashAttention #1745: NaN in cache slots that no length covers.
TEST_P(Cases, NanInUnusedCacheSlots) {
  for (const int32_t dtype : {VOLLEY_F16, VOLLEY_BF16, VOLLEY_F32}) {
    Case c = blank(dtype, 3, 3, 64);
    c.b = 2;
    c.used_k = {1, 3};
    Instance instance = build(c);
    set_rows(instance, Role::kQ, 0.5);
    set_rows(instance, Role::kK, 0.25);
    set_rows(instance, Role::kV, [](int64_t n, int64_t j, int64_t, int64_t) {
      return n == 0 ? 1.0 : static_cast<double>(j + 1);
    });
    if (!offered(instance)) continue;
    for (int64_t i = 0; i < 3; ++i) {
      expect_row(instance, 0, i, 1, 0x1p-9);
      expect_row(instance, 1, i, 2, 0x1p-9);
      EXPECT_NEAR(instance.lse_at(0, 0, i), 1, 3e-5);
      EXPECT_NEAR(instance.lse_at(1, 0, i), 1 + std::log(3), 3e-5);
    }
  }
}

// FlashAttention #443: one key for each long sequence of queries; only the last query sees it.
TEST_P(Cases, VarlenWhereAlmostAllRowsAreMasked) {
  Case c = blank(VOLLEY_F16, 256, 3, 32);
  c.values = Values::kNormal;
  c.logit_std = 9;  // as of q and k with a deviation of 3
  c.b = 3;
  c.causal = true;
  c.cu_q = {0, 76, 110, 256};
  c.cu_k = {0, 1, 2, 3};
  Instance instance = build(c);
  if (!offered(instance)) return;
  for (int64_t n = 0; n < c.b; ++n) {
    const int64_t last = query_span(c, n).used - 1;
    for (int64_t i = 0; i < last; ++i) {
      expect_row(instance, n, i, 0);
      ASSERT_EQ(instance.lse_at(n, 0, i), -kInfinity);
    }
    for (int64_t x = 0; x < c.dv; ++x) {
      ASSERT_EQ(o_at(instance, n, last, 0, x), instance[Role::kV].at({n, 0, x}));
    }
  }
}

// FlashAttention #1343, PR 2470: sequences without keys, and nothing but such.
TEST_P(Cases, ZeroLengthKeys) {
  for (const bool causal : {false, true}) {
    Case all = blank(VOLLEY_BF16, 9, 6, 128);
    all.values = Values::kNormal;
    all.b = 3;
    all.set_heads(2, 2);
    all.causal = causal;
    all.cu_q = {0, 4, 7, 9};
    all.cu_k = {0, 4, 4, 6};
    Instance instance = build(all);
    if (offered(instance)) {
      for (int64_t i = 0; i < 3; ++i) {
        expect_row(instance, 1, i, 0);
        EXPECT_EQ(instance.lse_at(1, 0, i), -kInfinity);
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

TEST_P(Cases, NothingToAttendTo) {
  auto least = std::chrono::steady_clock::duration::max();
  for (int attempt = 0; attempt < 3; ++attempt) {  // the machine may be busy with others
    const auto started = std::chrono::steady_clock::now();
    for (const bool causal : {false, true}) {
      Case c = blank(VOLLEY_BF16, 9, 0, 128);
      c.set_heads(2, 2);
      c.causal = causal;
      Instance dense = build(c);
      c.b = 3;
      c.cu_q = {0, 4, 7, 9};
      c.cu_k = {0, 0, 0, 0};
      Instance packed = build(c);
      for (Instance* instance : {&dense, &packed}) {
        if (!offered(*instance)) continue;
        for (int64_t i = 0; i < (*instance)[Role::kO].size(); ++i) {
          ASSERT_EQ((*instance)[Role::kO].flat(i), 0);
        }
        EXPECT_EQ(instance->lse_at(0, 1, 2), -kInfinity);
      }
      c.cu_q = {0, 0, 0, 0};
      c.sq = 0;
      Instance nothing = build(c);
      offered(nothing);
    }
    least = std::min(least, std::chrono::steady_clock::now() - started);
  }
  EXPECT_LT(least, std::chrono::seconds(1));
}

// FlashAttention #1228, PR 2324, PyTorch #176793: rows that belong to no sequence.
TEST_P(Cases, RowsPastTheLastCumulativeLength) {
  Case c = blank(VOLLEY_BF16, 946, 946, 64);
  c.values = Values::kNormal;
  c.b = 3;
  c.set_heads(16, 16);
  c.cu_q = c.cu_k = {0, 144, 432, 944};
  Instance instance = build(c);
  if (!offered(instance)) return;
  for (int64_t row = 944; row < 946; ++row) {
    for (int64_t h = 0; h < 16; ++h) {
      EXPECT_EQ(instance[Role::kLse].at({h, row}), -kInfinity);
      for (int64_t x = 0; x < 64; ++x) ASSERT_EQ(instance[Role::kO].at({row, h, x}), 0);
    }
  }
  Case sliced = c;
  sliced.sq = sliced.sk = 944;
  expect_same(build(c), build(sliced));
}

// FlashAttention #1537: one query a sequence, an empty sequence between, three heads a key head.
TEST_P(Cases, OneQueryEachWithGroupedHeads) {
  Case c = blank(VOLLEY_BF16, 2, 8, 64);
  c.values = Values::kNormal;
  c.b = 3;
  c.set_heads(9, 3);
  c.scale = 1;
  c.logit_std = 8;
  c.causal = true;
  c.cu_q = {0, 1, 1, 2};
  c.cu_k = {0, 3, 3, 8};
  expect_right(build(c));
  for (const int64_t n : {0, 2}) {
    Case alone = c;
    alone.first = n;
    alone.b = 1;
    alone.cu_q.clear();
    alone.cu_k.clear();
    alone.sq = 1;
    alone.sk = n == 0 ? 3 : 5;
    expect_same(build(alone), build(c), n);
  }
}

// FlashAttention #1619: four empty sequences, then one of a single token.
TEST_P(Cases, OneTokenAfterEmptySequences) {
  Case c = blank(VOLLEY_BF16, 1, 1, 120);
  c.values = Values::kNormal;
  c.b = 4;
  c.set_heads(21, 7);
  c.cu_q = c.cu_k = {0, 0, 0, 0, 1};
  Instance instance = build(c);
  if (!offered(instance)) return;
  for (int64_t h = 0; h < 21; ++h) {
    for (int64_t x = 0; x < 120; ++x) {
      ASSERT_EQ(instance[Role::kO].at({0, h, x}), instance[Role::kV].at({0, h / 3, x}));
    }
  }
}

}  // namespace
}  // namespace volley::check
