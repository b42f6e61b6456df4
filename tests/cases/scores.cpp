// SPDX-License-Identifier: BSD-3-Clause
//
// Cases about logits and sums: extreme logits, LSE and merging, softcap, sink.
#include "cases.h"

namespace volley::check {
namespace {

// FlashInfer #4267, #4451: logits beyond any finite stand-in for minus infinity.
TEST_P(Cases, LogitsBeyondAFiniteMinusInfinity) {
  const double logit = 64.0 * 64 * 128 / std::sqrt(128.0);
  for (const int32_t dtype : {VOLLEY_BF16, VOLLEY_F16}) {
    for (const double sign : {-1.0, 1.0}) {
      for (const int64_t sk : {1, 2, 300}) {
        Case c = blank(dtype, 1, sk, 128);
        c.set_heads(32, 32);
        Instance instance = build(c);
        set_rows(instance, Role::kQ, 64);
        set_rows(instance, Role::kK, sign * 64);
        set_rows(instance, Role::kV, [=](int64_t, int64_t j, int64_t, int64_t) {
          return sk == 2 && j == 1 ? 3.0 : 1.0;
        });
        if (!offered(instance)) continue;
        expect_row(instance, 0, 0, sk == 2 ? 2 : 1);
        const double wanted = sign * logit + std::log(static_cast<double>(sk));
        EXPECT_NEAR(instance.lse_at(0, 31, 0), wanted, 0.1);
      }
    }
  }
}

// Logits that grow with the keys, from 0 to `top`, evenly or all at once near the end: a row's
// maximum is nowhere near what its first keys promise. Every third row falls instead.
Instance growing(const Case& c, double top, bool evenly) {
  Instance instance = build(c);
  const double root = std::sqrt(static_cast<double>(c.d));  // undoes the scale
  set_rows(instance, Role::kQ, [=](int64_t, int64_t i, int64_t, int64_t x) {
    return x == 0 ? (i % 3 == 2 ? -root : root) : 0.0;
  });
  set_rows(instance, Role::kK, [=](int64_t, int64_t j, int64_t, int64_t x) {
    const double at = static_cast<double>(j) / static_cast<double>(c.sk - 1);
    return x == 0 ? top * (evenly ? at : (at > 0.8 ? 1 : 0)) : 0.0;
  });
  return instance;
}

// A maximum that is followed lazily, or taken from the first keys on trust, must not show: P may
// leave the range of fp16 (growth of 11), of bf16 and fp32 (of 88), or of everything.
TEST_P(Cases, LogitsThatGrowWithTheKeys) {
  for (const int32_t dtype : {VOLLEY_BF16, VOLLEY_F16}) {
    for (const double top : {8.0, 20.0, 80.0, 160.0, 1000.0, 30000.0}) {
      for (const bool evenly : {true, false}) {
        for (const int64_t d : {64, 128, 256}) {
          Case c = blank(dtype, 200, 700, d);
          c.values = Values::kNormal;
          c.set_heads(2, 1);
          c.causal = evenly;
          expect_right(growing(c, top, evenly));
        }
      }
    }
  }
}

// The same queries on keys [first, last) of `whole`.
Instance part_of(const Instance& whole, int64_t first, int64_t last) {
  Case c = whole.c;
  c.sk = last - first;
  Instance part = build(c);
  for (const Role role : {Role::kK, Role::kV}) {
    set_rows(part, role, [&](int64_t n, int64_t j, int64_t h, int64_t x) {
      return whole[role].at({n, first + j, h, x});
    });
  }
  return part;
}

// volley_combine of the parts' outputs, into `whole`'s.
void merge(const std::vector<Instance>& parts, Instance& whole) {
  const auto count = static_cast<int64_t>(parts.size());
  const auto stacked = [&](Role role) {
    std::vector<int64_t> shape = whole[role].shape();
    shape.insert(shape.begin(), count);
    HostTensor all(whole[role].dtype(), shape);
    const int64_t each = whole[role].size();
    for (int64_t i = 0; i < count * each; ++i) {
      all.set_flat(i, parts[static_cast<size_t>(i / each)][role].flat(i % each));
    }
    return all;
  };
  const HostTensor o = stacked(Role::kO);
  const HostTensor lse = stacked(Role::kLse);
  volley_error error{};
  EXPECT_EQ(volley_combine(o.view(), lse.view(), nullptr, whole[Role::kO].view(),
                           whole[Role::kLse].view(), nullptr, &error),
            VOLLEY_OK)
      << error.message;
}

// FlashAttention #404, #1137: parts over disjoint keys merge into the whole, empty parts too.
TEST_P(Cases, PartsMergeIntoTheWhole) {
  Case c = blank(VOLLEY_BF16, 64, 300, 64);
  c.values = Values::kNormal;
  const Instance whole = build(c);
  const Oracle oracle = oracle_of(whole);
  const Rule twice{2 * kForwardRule.max_factor, 2 * kForwardRule.rmse_factor};
  for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{0, 100, 300}, {0, 0, 300}}) {
    std::vector<Instance> parts;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      parts.push_back(part_of(whole, cuts[i], cuts[i + 1]));
      ASSERT_TRUE(offered(parts.back()));
    }
    Instance merged = whole.clone();
    merge(parts, merged);
    const Comparison o = compare("o", merged[Role::kO], oracle.o, oracle.naive.o, twice,
                                 oracle.naive.max_logit, oracle.naive.rounding);
    EXPECT_TRUE(o.ok) << o.sentence;
    const Comparison lse = compare_lse(merged[Role::kLse], oracle.lse, 2 * oracle.naive.max_logit);
    EXPECT_TRUE(lse.ok) << lse.sentence;
  }
}

// Two keys with the logits given, one query, d = 64; v = 1 and 0.
Instance two_keys(Case c, double first, double second) {
  Instance instance = build(c);
  set_rows(instance, Role::kQ,
           [](int64_t, int64_t, int64_t, int64_t x) { return x == 0 ? 8.0 : 0.0; });
  set_rows(instance, Role::kK, [=](int64_t, int64_t j, int64_t, int64_t x) {
    return x == 0 ? (j == 0 ? first : second) : 0.0;
  });
  set_rows(instance, Role::kV,
           [](int64_t, int64_t j, int64_t, int64_t) { return j == 0 ? 1.0 : 0.0; });
  return instance;
}

// FlashAttention PR 2402: a cap and its numbers.
TEST_P(Cases, SoftcapNumbers) {
  for (const int32_t dtype : {VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16}) {
    Case c = blank(dtype, 1, 2, 64);
    const double bound = dtype == VOLLEY_F32 ? 1e-5 : 0x1p-8;
    Instance plain = two_keys(c, 2, 0);
    if (offered(plain)) expect_row(plain, 0, 0, 0.88080, bound);
    c.softcap = 2;
    Instance capped = two_keys(c, 2, 0);
    if (!offered(capped)) continue;
    expect_row(capped, 0, 0, 0.82101, bound);
    EXPECT_NEAR(capped.lse_at(0, 0, 0), std::log(std::exp(2 * std::tanh(1)) + 1), 3e-5);
  }
}

// FlashAttention #1797, PR 2706: a learnable sink joins the sum.
TEST_P(Cases, SinkJoinsTheSum) {
  for (const int32_t dtype : {VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16}) {
    Case c = blank(dtype, 1, 2, 64);
    c.sink = true;
    Instance instance = two_keys(c, 0, 0);
    instance[Role::kSink].fill(0);
    if (!offered(instance)) continue;
    expect_row(instance, 0, 0, 1.0 / 3, ulp(dtype, 1.0 / 3));
    EXPECT_NEAR(instance.lse_at(0, 0, 0), std::log(3), 3e-5);
    c.sk = 0;
    Instance nothing = build(c);
    set_rows(nothing, Role::kQ, 1);
    nothing[Role::kSink].fill(0.75);
    if (!offered(nothing)) continue;
    expect_row(nothing, 0, 0, 0);
    EXPECT_NEAR(nothing.lse_at(0, 0, 0), 0.75, 3e-5);
  }
}

// Also where a row sees no key, alone or beside rows that do: its neighbours must not matter.
TEST_P(Cases, SinkOfNanOrInfinitySpoilsEveryRow) {
  for (const double value : {std::nan(""), kInfinity}) {
    for (const int64_t queries : {1, 2, 5}) {
      Case c = blank(VOLLEY_F32, queries, 1, 64);
      c.sink = true;
      c.causal = true;
      c.alignment = VOLLEY_ALIGN_EXPLICIT;
      c.offset = -1;  // query 0 sees nothing
      Instance instance = build(c);
      set_rows(instance, Role::kQ, 1);
      set_rows(instance, Role::kK, 1);
      set_rows(instance, Role::kV, 1);
      instance[Role::kSink].fill(value);
      if (!offered(instance)) continue;
      for (int64_t i = 0; i < queries; ++i) {
        EXPECT_TRUE(std::isnan(o_at(instance, 0, i, 0, 0))) << value << ", query " << i;
        EXPECT_TRUE(std::isnan(instance.lse_at(0, 0, i))) << value << ", query " << i;
      }
    }
  }
}

}  // namespace
}  // namespace volley::check
