// SPDX-License-Identifier: BSD-3-Clause
//
// Sequences of all lengths on the Hopper kernels. Every row that belongs to nobody is NaN in q, k
// and v: the neighbour of each sequence, what lies past a used length, what no sequence owns.
#include <algorithm>

#include "on_hopper.h"
#include "random.h"

namespace volley::check {
namespace {

class Sequences : public OnHopper {};

std::vector<int32_t> cumulative(const std::vector<int32_t>& lengths) {
  std::vector<int32_t> cu{0};
  for (const int32_t length : lengths) cu.push_back(cu.back() + length);
  return cu;
}

// Packed and dense, with and without used lengths, on either side.
std::vector<Case> length_cases(const Case& plain) {
  const std::vector<int32_t> q_lengths{65, 0, 1, 40}, k_lengths{1, 70, 0, 129};
  const std::vector<int32_t> used_q{64, 0, 0, 33}, used_k{1, 65, 0, 127};
  std::vector<Case> cases;
  for (const bool packed_q : {false, true}) {
    for (const bool packed_k : {false, true}) {
      for (const bool used : {false, true}) {
        if (!packed_q && !packed_k && !used) continue;
        Case& c = cases.emplace_back(plain);
        c.b = 4;
        c.sq = packed_q ? 106 + 3 : 65;
        c.sk = packed_k ? 200 + 3 : 129;
        if (packed_q) c.cu_q = cumulative(q_lengths);
        if (packed_k) c.cu_k = cumulative(k_lengths);
        if (used) c.used_q = used_q, c.used_k = used_k;
      }
    }
  }
  return cases;
}

TEST_F(Sequences, NanBesideEachAtEveryHeadDim) {
  for (const int32_t dtype : kHalves) {
    for (const HeadDims& dims : kHeadDims) {
      Case plain;
      plain.dtype = dtype;
      plain.d = dims.d, plain.dv = dims.dv;
      plain.set_heads(2, 1);
      for (Case& c : length_cases(plain)) {
        expect_right(build(c));
        c.causal = true;
        expect_right(build(c));
      }
    }
  }
}

TEST_F(Sequences, WindowsSinksAndWideOutputs) {
  Case plain;
  plain.set_heads(2, 2);
  plain.sink = true;
  plain.out_dtype = VOLLEY_F32;
  for (const int32_t alignment : {VOLLEY_ALIGN_BOTTOM_RIGHT, VOLLEY_ALIGN_TOP_LEFT}) {
    for (Case& c : length_cases(plain)) {
      c.alignment = alignment;
      c.left = 20, c.right = 7;
      expect_right(build(c));
      c.left = -1;
      expect_right(build(c));
      c.left = 63, c.right = -1;
      expect_right(build(c));
    }
  }
}

// Many more than a warp reads at once; many of them empty, on one side or both.
Case many(int64_t count, uint64_t seed) {
  Case c;
  c.b = count;
  c.set_heads(2, 1);
  c.causal = true;
  Random random(seed);
  std::vector<int32_t> q_lengths, k_lengths;
  for (int64_t n = 0; n < count; ++n) {
    const auto draw = [&](int64_t most) {
      return static_cast<int32_t>(random.chance(0.3) ? 0 : random.integer(1, most));
    };
    q_lengths.push_back(draw(random.chance(0.02) ? 200 : 12));
    k_lengths.push_back(draw(random.chance(0.02) ? 300 : 40));
  }
  c.cu_q = cumulative(q_lengths);
  c.cu_k = cumulative(k_lengths);
  c.sq = c.cu_q.back() + 5;
  c.sk = c.cu_k.back() + 5;
  return c;
}

TEST_F(Sequences, FifteenHundred) {
  Case c = many(1500, 1);
  expect_right(build(c));
  c.dtype = VOLLEY_F16;
  c.d = c.dv = 128;
  for (int64_t n = 0; n < c.b; ++n) {
    const Span q = query_span(c, n), k = key_span(c, n);
    c.used_q.push_back(static_cast<int32_t>(n % 3 == 0 ? q.owned / 2 : q.owned));
    c.used_k.push_back(static_cast<int32_t>(n % 5 == 0 ? k.owned / 2 : k.owned));
  }
  expect_right(build(c));
}

TEST_F(Sequences, AnyNumberOfSmsGivesTheSameBits) {
  const Case c = many(100, 2);
  Instance all = build(c);
  for (const int32_t max_sms : {1, 2, 131, 132}) {
    Instance some = build(c);
    some.options.max_sms = max_sms;
    expect_same(all, some);
  }
}

TEST_F(Sequences, EachAloneHasTheBitsItHasAmongMany) {
  const Case c = many(70, 3);
  Instance all = build(c);
  all.options.batch_invariant = 1;
  for (int64_t n = 0; n < c.b; n += 3) {
    const Span q = query_span(c, n), k = key_span(c, n);
    Case alone = c;
    alone.b = 1;
    alone.first = n;
    alone.cu_q = {0, static_cast<int32_t>(q.used)};
    alone.cu_k = {0, static_cast<int32_t>(k.used)};
    alone.sq = q.used;
    alone.sk = k.used;
    Instance instance = build(alone);
    instance.options.batch_invariant = 1;
    expect_same(instance, all, n);
  }
}

TEST_F(Sequences, RowsThatNobodyOwnsAreEmpty) {
  for (const int32_t out_dtype : {VOLLEY_BF16, VOLLEY_F32}) {
    Case none;  // no sequence at all, but rows
    none.b = 0;
    none.sq = 70, none.sk = 3;
    none.cu_q = none.cu_k = {0};
    none.out_dtype = out_dtype;
    expect_right(build(none));
    Case empty = none;  // sequences without rows
    empty.b = 3;
    empty.cu_q = empty.cu_k = {0, 0, 0, 0};
    expect_right(build(empty));
    Case few = none;
    few.b = 2;
    few.sq = 700;
    few.cu_q = {0, 1, 2};
    few.cu_k = {0, 0, 2};
    few.used_q = {0, 1};
    expect_right(build(few));
  }
}

// Nobody reads lengths on the host: what they say beyond the tensors is clamped.
TEST_F(Sequences, LengthsBeyondTheTensorsAreClamped) {
  Case used;
  used.b = 3;
  used.sq = 70, used.sk = 130;
  used.used_q = {70, 0, 5};
  used.used_k = {130, 0, 7};
  Instance want = build(used);
  Instance wild = build(used);
  for (const Role role : {Role::kSequsedQ, Role::kSequsedK}) {
    wild[role].set_flat(0, 1 << 30);
    wild[role].set_flat(1, -5);
  }
  expect_same(want, wild);

  Case packed;
  packed.b = 2;
  packed.sq = 20, packed.sk = 30;
  packed.cu_q = {0, 10, 20};
  packed.cu_k = {0, 15, 30};
  want = build(packed);
  wild = build(packed);
  wild[Role::kCuSeqlensQ].set_flat(2, 21);
  wild[Role::kCuSeqlensK].set_flat(2, 31);
  expect_same(want, wild);
}

}  // namespace
}  // namespace volley::check
