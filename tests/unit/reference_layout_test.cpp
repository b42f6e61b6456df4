// SPDX-License-Identifier: BSD-3-Clause
//
// What must not change a bit of the reference: strides, neighbours, pages, where a power of two
// sits between the scales. And sizes of zero, one and the largest.
#include <array>

#include "dropout.h"
#include "reference_features.h"

namespace volley::check {
namespace {

// The same values in other memory.
HostTensor relaid(const HostTensor& from, HostTensor to) {
  for (int64_t i = 0; i < from.size(); ++i) to.set_flat(i, from.flat(i));
  return to;
}

HostTensor every_second_row(const HostTensor& from) {
  const std::vector<int64_t> s = from.shape();
  const int64_t row = s[2] * s[3];
  return relaid(from, HostTensor(from.dtype(), s, {2 * s[1] * row, 2 * row, s[3], 1}));
}

HostTensor heads_first(const HostTensor& from) {
  return relaid(from, HostTensor::permuted(from.dtype(), from.shape(), std::array{0, 2, 1, 3}));
}

HostTensor channels_first_backwards(const HostTensor& from) {
  const std::vector<int64_t> s = from.shape();
  return relaid(from, HostTensor(from.dtype(), s, {s[1] * s[2] * s[3], -s[2], 1, s[1] * s[2]},
                                 (s[1] - 1) * s[2]));
}

Call dense_call(int32_t dtype, uint64_t seed) {
  std::mt19937_64 random(seed);
  Call call;
  call.q = random_tensor(dtype, {2, 20, 4, 16}, &random);
  call.k = random_tensor(dtype, {2, 30, 2, 16}, &random);
  call.v = random_tensor(dtype, {2, 30, 2, 16}, &random);
  call.dout = random_tensor(dtype, {2, 20, 4, 16}, &random);
  call.options.causal = 1;
  call.add_outputs(dtype);
  call.add_gradients(dtype);
  return call;
}

TEST(ReferenceLayout, StridesDoNotMatter) {
  const auto layouts = {every_second_row, heads_first, channels_first_backwards};
  Call plain = dense_call(VOLLEY_F16, 14);
  plain.forward();
  plain.backward();
  for (const auto layout : layouts) {
    for (const auto other : layouts) {
      Call call = dense_call(VOLLEY_F16, 14);
      call.q = layout(call.q);
      call.k = other(call.k);
      call.v = layout(call.v);
      call.dout = other(call.dout);
      call.o = layout(call.o);
      call.dq = other(call.dq);
      call.dk = layout(call.dk);
      call.dv = other(call.dv);
      call.forward();
      call.backward();
      EXPECT_TRUE(same_bits(call.o, plain.o));
      EXPECT_TRUE(same_bits(call.lse, plain.lse));
      EXPECT_TRUE(same_bits(call.dq, plain.dq));
      EXPECT_TRUE(same_bits(call.dk, plain.dk));
      EXPECT_TRUE(same_bits(call.dv, plain.dv));
      for (const HostTensor* output : {&call.o, &call.dq, &call.dk, &call.dv}) {
        EXPECT_TRUE(output->untouched_outside());
      }
    }
  }
}

TEST(ReferenceLayout, ExpandedOutputGradient) {
  Call call = dense_call(VOLLEY_F16, 15);
  call.dout.fill(1);
  call.forward();
  call.backward();
  const HostTensor dk = call.dk.clone();
  call.dout = HostTensor(VOLLEY_F16, call.q.shape(), {0, 0, 0, 0});
  call.dout.fill(1);
  call.backward();
  EXPECT_TRUE(same_bits(call.dk, dk));
}

TEST(ReferenceLayout, OutputsInAnyFloat) {
  Call call = dense_call(VOLLEY_BF16, 16);
  call.add_outputs(VOLLEY_F64);
  call.forward();
  const HostTensor exact = call.o.clone();
  for (const int32_t dtype : {VOLLEY_BF16, VOLLEY_F32}) {
    call.add_outputs(dtype);
    call.forward();
    EXPECT_TRUE(same_bits(call.o, relaid(exact, HostTensor(dtype, exact.shape()))));
  }
}

TEST(ReferenceLayout, RowsPastTheLastLengthAreAsSlicedOff) {
  std::mt19937_64 random(11);
  const auto whole = [&](int64_t rows, Call* call) {
    call->cu_seqlens_q = lengths({0, 14, 43, 94});
    call->cu_seqlens_k = lengths({0, 14, 43, 94});
    call->add_outputs(VOLLEY_BF16);
    call->add_gradients(VOLLEY_BF16);
    call->options.max_seqlen_q = 51;
    call->options.max_seqlen_k = 51;
    call->forward();
    call->backward();
    ASSERT_EQ(call->o.shape()[0], rows);
  };
  Call sliced;
  for (HostTensor* tensor : {&sliced.q, &sliced.k, &sliced.v, &sliced.dout}) {
    *tensor = random_tensor(VOLLEY_BF16, {94, 2, 8}, &random);
  }
  Call padded;
  padded.q = HostTensor(VOLLEY_BF16, {96, 2, 8});  // NaN
  padded.k = padded.q.clone();
  padded.v = padded.q.clone();
  padded.dout = padded.q.clone();
  for (int64_t i = 0; i < sliced.q.size(); ++i) {
    padded.q.set_flat(i, sliced.q.flat(i));
    padded.k.set_flat(i, sliced.k.flat(i));
    padded.v.set_flat(i, sliced.v.flat(i));
    padded.dout.set_flat(i, sliced.dout.flat(i));
  }
  whole(94, &sliced);
  whole(96, &padded);
  const auto expect_padded = [](const HostTensor& long_one, const HostTensor& short_one) {
    for (int64_t i = 0; i < long_one.size(); ++i) {
      EXPECT_EQ(long_one.flat(i), i < short_one.size() ? short_one.flat(i) : 0) << i;
    }
  };
  expect_padded(padded.o, sliced.o);
  expect_padded(padded.dq, sliced.dq);
  expect_padded(padded.dk, sliced.dk);
  expect_padded(padded.dv, sliced.dv);
}

// Sequences of length 0 anywhere, all keys gone, no queries at all: normal returns.
TEST(ReferenceLayout, SizesOfZero) {
  std::mt19937_64 random(9);
  for (const int32_t causal : {0, 1}) {
    for (const auto& [total_q, total_k, cu_q, cu_k] :
         {std::tuple{9, 6, std::vector<double>{0, 4, 7, 9}, std::vector<double>{0, 4, 4, 6}},
          std::tuple{9, 0, std::vector<double>{0, 4, 7, 9}, std::vector<double>{0, 0, 0, 0}},
          std::tuple{0, 6, std::vector<double>{0, 0, 0, 0}, std::vector<double>{0, 4, 4, 6}},
          std::tuple{0, 0, std::vector<double>{0}, std::vector<double>{0}}}) {
      Call call;
      call.q = random_tensor(VOLLEY_BF16, {total_q, 2, 128}, &random);
      call.k = random_tensor(VOLLEY_BF16, {total_k, 2, 128}, &random);
      call.v = random_tensor(VOLLEY_BF16, {total_k, 2, 128}, &random);
      call.dout = random_tensor(VOLLEY_BF16, {total_q, 2, 128}, &random);
      call.cu_seqlens_q = lengths(cu_q);
      call.cu_seqlens_k = lengths(cu_k);
      call.options.causal = causal;
      call.add_outputs(VOLLEY_BF16);
      call.add_gradients(VOLLEY_BF16);
      call.forward();
      call.backward();
      for (int64_t row = 0; row < total_q; ++row) {
        const bool empty = total_k == 0 || (row >= 4 && row < 7);
        EXPECT_EQ(call.lse.at({1, row}) == -kInf, empty) << row;
        EXPECT_EQ(call.o.at({row, 1, 5}) == 0, empty) << row;
        EXPECT_TRUE(!empty || call.dq.at({row, 1, 5}) == 0) << row;
      }
      for (int64_t i = 0; i < call.dk.size(); ++i) {
        EXPECT_TRUE(std::isfinite(call.dk.flat(i)));
        EXPECT_TRUE(total_q > 0 || call.dk.flat(i) == 0);
      }
    }
  }
  for (const auto& [b, sq, sk] : {std::array{0, 3, 3}, std::array{2, 0, 3}, std::array{2, 3, 0}}) {
    Call call;
    call.q = random_tensor(VOLLEY_F32, {b, sq, 2, 4}, &random);
    call.k = random_tensor(VOLLEY_F32, {b, sk, 2, 4}, &random);
    call.v = random_tensor(VOLLEY_F32, {b, sk, 2, 4}, &random);
    call.dout = random_tensor(VOLLEY_F32, {b, sq, 2, 4}, &random);
    call.add_outputs(VOLLEY_F32);
    call.add_gradients(VOLLEY_F32);
    call.forward();
    call.backward();
    expect_all(call.o, 0);
    expect_all(call.dk, 0);
  }
}

TEST(ReferenceLayout, HeadDimsFromOneTo1024) {
  std::mt19937_64 random(17);
  for (const auto& [d, dv] : {std::array{1, 1024}, std::array{1024, 1}, std::array{7, 13}}) {
    Call call;
    call.q = random_tensor(VOLLEY_F32, {1, 1, 1, d}, &random);
    call.k = random_tensor(VOLLEY_F32, {1, 2, 1, d}, &random);
    call.v = random_tensor(VOLLEY_F32, {1, 2, 1, dv}, &random);
    call.add_outputs(VOLLEY_F64);
    call.forward();
    double s[2] = {};
    for (int64_t j = 0; j < 2; ++j) {
      for (int64_t e = 0; e < d; ++e) s[j] += call.q.at({0, 0, 0, e}) * call.k.at({0, j, 0, e});
    }
    const double p = 1 / (1 + std::exp((s[1] - s[0]) / std::sqrt(d)));
    for (int64_t e = 0; e < dv; ++e) {
      const double wanted = p * call.v.at({0, 0, 0, e}) + (1 - p) * call.v.at({0, 1, 0, e});
      EXPECT_NEAR(call.o.at({0, 0, 0, e}), wanted, 1e-12);
    }
  }
}

// The count of kept weights, their scale and the untouched LSE.
TEST(ReferenceLayout, DropoutScalesWhatItKeeps) {
  Call call;
  call.q = tensor_of(VOLLEY_F64, {1, 1, 1, 1}, {0});
  call.k = tensor_of(VOLLEY_F64, {1, 1000, 1, 1}, {0});
  call.v = HostTensor(VOLLEY_F64, {1, 1000, 1, 1000});
  call.v.fill(0);
  for (int64_t j = 0; j < 1000; ++j) call.v.set({0, j, 0, j}, 1);
  call.options.dropout_p = 0.25;
  call.dropout_seed = tensor_of(VOLLEY_I64, {1}, {3});
  call.add_outputs(VOLLEY_F64, VOLLEY_F64);
  call.forward();
  double kept = 0;
  for (int64_t j = 0; j < 1000; ++j) {
    if (call.o.flat(j) == 0) continue;
    EXPECT_NEAR(call.o.flat(j), 1e-3 / 0.75, 1e-15);
    ++kept;
  }
  EXPECT_NEAR(kept, 750, 5 * std::sqrt(1000 * 0.25 * 0.75));
  EXPECT_NEAR(call.lse.flat(0), std::log(1000), 1e-12);
  const HostTensor o = call.o.clone();
  call.dropout_offset = tensor_of(VOLLEY_I64, {1}, {0});  // absent means 0
  call.forward();
  EXPECT_TRUE(same_bits(call.o, o));
  call.dropout_offset.fill(1);
  call.forward();
  EXPECT_FALSE(same_bits(call.o, o));
}

// Which weights fall, by the definition in docs/contract.md, at every position of a small problem.
TEST(ReferenceLayout, DropoutFollowsTheDefinition) {
  constexpr int64_t kKeys = 11;
  Call call;
  call.q = tensor_of(VOLLEY_F64, {2, 3, 2, 1}, {0});
  call.k = tensor_of(VOLLEY_F64, {2, kKeys, 2, 1}, {0});
  call.v = tensor_of(VOLLEY_F64, {2, kKeys, 2, kKeys}, {0});
  for (int64_t j = 0; j < 4 * kKeys; ++j) {
    call.v.set({j / (2 * kKeys), j / 2 % kKeys, j % 2, j / 2 % kKeys}, 1);
  }
  call.options.dropout_p = 0.5;
  call.dropout_seed = tensor_of(VOLLEY_I64, {}, {0x123456789a});
  call.dropout_offset = tensor_of(VOLLEY_I64, {}, {0xbcdef01234});
  call.add_outputs(VOLLEY_F64);
  call.forward();
  const core::PhiloxCounter mixed =
      core::philox4x32({{0xdef01234, 0xbc, 0, 0}}, {{0x3456789a, 0x12}});
  for (uint32_t n = 0; n < 2; ++n) {
    for (uint32_t i = 0; i < 3; ++i) {
      for (uint32_t h = 0; h < 2; ++h) {
        for (uint32_t j = 0; j < kKeys; ++j) {
          const core::PhiloxCounter words =
              core::philox4x32({{j / 4, i, n, h}}, {{mixed.word[0], mixed.word[1]}});
          const bool kept = words.word[j % 4] >= 0x80000000u;
          EXPECT_EQ(call.o.at({n, i, h, j}) > 0, kept) << n << i << h << j;
        }
      }
    }
  }
}

}  // namespace
}  // namespace volley::check
