// SPDX-License-Identifier: BSD-3-Clause
//
// The reference forward against values worked out by hand. What each case comes from: a public bug
// report of another library, or one sentence of docs/contract.md.
#include "reference_call.h"

namespace volley::check {
namespace {

// A dense problem of constants: shape (b, rows, heads, d).
Call constant_call(int32_t dtype, int64_t b, int64_t sq, int64_t sk, int64_t h, int64_t d) {
  Call call;
  call.q = HostTensor(dtype, {b, sq, h, d});
  call.k = HostTensor(dtype, {b, sk, h, d});
  call.v = HostTensor(dtype, {b, sk, h, d});
  call.add_outputs(dtype);
  return call;
}

void set_row(HostTensor* tensor, int64_t n, int64_t row, double value) {
  const std::vector<int64_t> shape = tensor->shape();
  for (int64_t h = 0; h < shape[2]; ++h) {
    for (int64_t e = 0; e < shape[3]; ++e) tensor->set({n, row, h, e}, value);
  }
}

TEST(ReferenceForward, NanInUnusedCacheSlots) {
  Call call = constant_call(VOLLEY_F16, 2, 3, 3, 1, 64);
  call.q.fill(0.5);
  call.seqused_k = lengths({1, 3});
  set_row(&call.k, 0, 0, 0.25);
  set_row(&call.v, 0, 0, 1);
  for (int64_t j = 0; j < 3; ++j) {
    set_row(&call.k, 1, j, 0.25);
    set_row(&call.v, 1, j, static_cast<double>(j + 1));
  }
  call.forward();
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(call.o.at({0, i, 0, 63}), 1);
    EXPECT_NEAR(call.o.at({1, i, 0, 0}), 2, 0x1p-9);
    EXPECT_NEAR(call.lse.at({0, 0, i}), 1, 1e-7);
    EXPECT_NEAR(call.lse.at({1, 0, i}), 1 + std::log(3), 1e-6);
  }
}

TEST(ReferenceForward, LogitsBeyondAFiniteMinusInfinity) {
  for (const int32_t dtype : {VOLLEY_BF16, VOLLEY_F16}) {
    for (const double sign : {-1.0, 1.0}) {
      for (const int64_t sk : {1, 2, 300}) {
        Call call = constant_call(dtype, 1, 1, sk, 32, 128);
        call.q.fill(64);
        call.k.fill(64 * sign);
        for (int64_t j = 0; j < sk; ++j) set_row(&call.v, 0, j, j % 2 == 0 ? 1 : 3);
        call.forward();
        expect_all(call.o, sk == 1 ? 1 : 2);
        expect_all(call.lse, sign * 524288 / std::sqrt(128), 0.1 + std::log(sk));
      }
    }
  }
}

TEST(ReferenceForward, CausalWithMoreQueriesThanKeys) {
  for (const int32_t dtype : {VOLLEY_F32, VOLLEY_BF16}) {
    Call call = constant_call(dtype, 1, 5, 2, 1, 64);
    call.q.fill(1);
    call.k.fill(0);
    set_row(&call.v, 0, 0, 1);
    set_row(&call.v, 0, 1, 3);
    call.options.causal = 1;
    call.forward();
    const double rows[] = {0, 0, 0, 1, 2};
    for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(call.o.at({0, i, 0, 5}), rows[i]) << i;
    expect_values(call.lse, {-kInf, -kInf, -kInf, 0, std::log(2)}, 1e-7);

    call.options.mask_alignment = VOLLEY_ALIGN_TOP_LEFT;  // now no row is empty
    call.forward();
    expect_values(call.lse, {0, std::log(2), std::log(2), std::log(2), std::log(2)}, 1e-7);
  }
}

TEST(ReferenceForward, VarlenWhereAlmostAllRowsAreMasked) {
  std::mt19937_64 random(8);
  Call call;
  call.q = random_tensor(VOLLEY_F16, {256, 1, 32}, &random, 3);
  call.k = random_tensor(VOLLEY_F16, {3, 1, 32}, &random, 3);
  call.v = random_tensor(VOLLEY_F16, {3, 1, 32}, &random, 3);
  call.cu_seqlens_q = lengths({0, 76, 110, 256});
  call.cu_seqlens_k = lengths({0, 1, 2, 3});
  call.options.causal = 1;
  call.add_outputs(VOLLEY_F16);
  call.forward();
  for (int64_t i = 0; i < 256; ++i) {
    const int64_t sequence = i == 75 ? 0 : i == 109 ? 1 : i == 255 ? 2 : -1;
    for (int64_t e = 0; e < 32; ++e) {
      EXPECT_EQ(call.o.at({i, 0, e}), sequence < 0 ? 0 : call.v.at({sequence, 0, e})) << i;
    }
    EXPECT_EQ(std::isinf(call.lse.at({0, i})), sequence < 0);
  }
}

TEST(ReferenceForward, OneQueryPerSequenceSomeEmpty) {
  std::mt19937_64 random(12);
  Call call;
  call.q = random_tensor(VOLLEY_BF16, {2, 9, 64}, &random);
  call.k = random_tensor(VOLLEY_BF16, {8, 3, 64}, &random);
  call.v = random_tensor(VOLLEY_BF16, {8, 3, 64}, &random);
  call.cu_seqlens_q = lengths({0, 1, 1, 2});
  call.cu_seqlens_k = lengths({0, 3, 3, 8});
  call.options.causal = 1;
  call.options.scale = 1;
  call.options.max_seqlen_q = 1;
  call.options.max_seqlen_k = 5;
  call.add_outputs(VOLLEY_F64);
  call.forward();
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t h = 0; h < 9; ++h) {
      double sum = 0;
      double o = 0;
      for (int64_t j = row == 0 ? 0 : 3; j < (row == 0 ? 3 : 8); ++j) {
        double s = 0;
        for (int64_t e = 0; e < 64; ++e) s += call.q.at({row, h, e}) * call.k.at({j, h / 3, e});
        sum += std::exp(s);
        o += std::exp(s) * call.v.at({j, h / 3, 17});
      }
      EXPECT_NEAR(call.o.at({row, h, 17}), o / sum, 1e-12) << row << " " << h;
      EXPECT_NEAR(call.lse.at({h, row}), std::log(sum), 1e-5);
    }
  }

  Call one;  // a single token after three empty sequences
  one.q = random_tensor(VOLLEY_BF16, {1, 21, 120}, &random);
  one.k = random_tensor(VOLLEY_BF16, {1, 7, 120}, &random);
  one.v = random_tensor(VOLLEY_BF16, {1, 7, 120}, &random);
  one.cu_seqlens_q = lengths({0, 0, 0, 0, 1});
  one.cu_seqlens_k = lengths({0, 0, 0, 0, 1});
  one.add_outputs(VOLLEY_BF16);
  one.forward();
  for (int64_t h = 0; h < 21; ++h) EXPECT_EQ(one.o.at({0, h, 3}), one.v.at({0, h / 3, 3}));
}

TEST(ReferenceForward, EquivalentWaysToSayCausal) {
  std::mt19937_64 random(22);
  const int64_t s = 64;
  Call call;
  call.q = random_tensor(VOLLEY_F16, {1, s, 2, 16}, &random);
  call.k = random_tensor(VOLLEY_F16, {1, s, 2, 16}, &random);
  call.v = random_tensor(VOLLEY_F16, {1, s, 2, 16}, &random);
  call.add_outputs(VOLLEY_F16);
  call.options.causal = 1;
  call.forward();
  const HostTensor causal = call.o.clone();
  const auto windowed = [&](int32_t is_causal, int64_t left, int64_t right) {
    call.options.causal = is_causal;
    call.options.window_left = left;
    call.options.window_right = right;
    call.forward();
    return call.o.clone();
  };
  EXPECT_TRUE(same_bits(windowed(0, -1, 0), causal));
  EXPECT_TRUE(same_bits(windowed(0, s, 0), causal));
  EXPECT_TRUE(same_bits(windowed(0, s - 1, 0), causal));
  EXPECT_TRUE(same_bits(windowed(1, -1, 5), causal));
  EXPECT_FALSE(same_bits(windowed(0, s - 2, 0), causal));
  EXPECT_TRUE(same_bits(windowed(0, 0, 0), call.v));
  call.options.window_left = -3;
  EXPECT_EQ(call.run(VOLLEY_OP_FORWARD), VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(call.error.reason, VOLLEY_REASON_WINDOW);
}

// K = 0 and V one-hot: o is the row of weights, so the key set of each row is read off exactly.
TEST(ReferenceForward, BandsShowExactlyTheirKeys) {
  const int64_t sq = 5;
  const int64_t sk = 8;
  for (const int32_t alignment :
       {VOLLEY_ALIGN_BOTTOM_RIGHT, VOLLEY_ALIGN_TOP_LEFT, VOLLEY_ALIGN_EXPLICIT}) {
    for (int64_t left = -1; left < 4; ++left) {
      for (int64_t right = -1; right < 4; ++right) {
        Call call = constant_call(VOLLEY_F64, 1, sq, sk, 1, sk);
        call.q.fill(1);
        call.k.fill(0);
        call.v.fill(0);
        for (int64_t j = 0; j < sk; ++j) call.v.set({0, j, 0, j}, 1);
        call.options.window_left = left;
        call.options.window_right = right;
        call.options.mask_alignment = alignment;
        call.options.mask_offset = alignment == VOLLEY_ALIGN_EXPLICIT ? -2 : 0;
        call.forward();
        const int64_t offset = alignment == VOLLEY_ALIGN_BOTTOM_RIGHT ? sk - sq
                               : alignment == VOLLEY_ALIGN_TOP_LEFT   ? 0
                                                                      : -2;
        for (int64_t i = 0; i < sq; ++i) {
          const auto seen = [&](int64_t j) {
            return (left < 0 || j - i - offset >= -left) && (right < 0 || j - i - offset <= right);
          };
          double count = 0;
          for (int64_t j = 0; j < sk; ++j) count += seen(j);
          for (int64_t j = 0; j < sk; ++j) {
            EXPECT_EQ(call.o.at({0, i, 0, j}), seen(j) ? 1 / count : 0)
                << alignment << " " << left << " " << right << " " << i << " " << j;
          }
        }
      }
    }
  }
}

// Query 1 of one dim, keys 2 and 0, values 1 and 0: o is the weight of the logit 2.
Call two_keys() {
  Call call;
  call.q = tensor_of(VOLLEY_F64, {1, 1, 1, 1}, {1});
  call.k = tensor_of(VOLLEY_F64, {1, 2, 1, 1}, {2, 0});
  call.v = tensor_of(VOLLEY_F64, {1, 2, 1, 1}, {1, 0});
  call.add_outputs(VOLLEY_F64, VOLLEY_F64);
  return call;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

TEST(ReferenceForward, Softcap) {
  Call call = two_keys();
  call.forward();
  EXPECT_NEAR(call.o.flat(0), 0.88080, 1e-5);
  call.options.softcap = 2;
  call.forward();
  EXPECT_NEAR(call.o.flat(0), 0.82101, 1e-5);
  EXPECT_NEAR(call.o.flat(0), sigmoid(2 * std::tanh(1)), 1e-15);
}

TEST(ReferenceForward, SinkJoinsTheSum) {
  Call call = two_keys();
  call.k.fill(0);
  call.v = tensor_of(VOLLEY_F64, {1, 2, 1, 1}, {5, 7});
  call.sink = tensor_of(VOLLEY_F32, {1}, {0});
  call.forward();
  EXPECT_NEAR(call.o.flat(0), 4, 1e-15);
  EXPECT_NEAR(call.lse.flat(0), std::log(3), 1e-15);

  call.k = HostTensor(VOLLEY_F64, {1, 0, 1, 1});
  call.v = HostTensor(VOLLEY_F64, {1, 0, 1, 1});
  call.sink.fill(-3);
  call.forward();
  EXPECT_EQ(call.o.flat(0), 0);
  EXPECT_EQ(call.lse.flat(0), -3);

  call.sink.fill(-kInf);  // as if there were none
  call.forward();
  EXPECT_EQ(call.o.flat(0), 0);
  EXPECT_EQ(call.lse.flat(0), -kInf);
}

TEST(ReferenceForward, BiasAddsAfterSoftcapAndMinusInfinityHides) {
  Call call = two_keys();
  call.options.softcap = 2;
  call.bias = tensor_of(VOLLEY_F32, {1, 1, 1, 2}, {0.5, -1});
  call.forward();
  EXPECT_NEAR(call.o.flat(0), sigmoid(2 * std::tanh(1) + 1.5), 1e-15);

  call.bias.set_flat(0, -kInf);
  call.k.set_flat(0, kNan);  // not seen, so not read
  call.v.set_flat(0, kNan);
  call.forward();
  EXPECT_EQ(call.o.flat(0), 0);
  EXPECT_EQ(call.lse.flat(0), -1);

  call.bias.set_flat(1, -kInf);
  call.forward();
  EXPECT_EQ(call.o.flat(0), 0);
  EXPECT_EQ(call.lse.flat(0), -kInf);
}

TEST(ReferenceForward, MaskHides) {
  Call call = two_keys();
  call.mask = tensor_of(VOLLEY_BOOL, {1, 1, 1, 2}, {1, 0});
  call.k.set_flat(1, kNan);
  call.v.set_flat(1, kNan);
  call.forward();
  EXPECT_EQ(call.o.flat(0), 1);
  EXPECT_EQ(call.lse.flat(0), 2);
}

// Slope 0.25, offset -1: distances of query 0 to keys 0 and 1 are 1 and 2, also without a band.
TEST(ReferenceForward, AlibiMeasuresFromTheOffset) {
  Call call = two_keys();
  call.alibi_slopes = tensor_of(VOLLEY_F32, {1}, {0.25});
  call.options.mask_alignment = VOLLEY_ALIGN_EXPLICIT;
  call.options.mask_offset = -1;
  call.forward();
  EXPECT_NEAR(call.o.flat(0), sigmoid((2 - 0.25) - (0 - 0.5)), 1e-15);
  call.options.mask_alignment = VOLLEY_ALIGN_BOTTOM_RIGHT;  // offset 1: distances 1 and 0
  call.options.mask_offset = 0;
  call.forward();
  EXPECT_NEAR(call.o.flat(0), sigmoid(2 - 0.25), 1e-15);
}

TEST(ReferenceForward, NanInOwnInputsStays) {
  Call call = constant_call(VOLLEY_F32, 1, 3, 4, 1, 8);
  call.q.fill(1);
  call.k.fill(1);
  call.v.fill(1);
  call.q.set({0, 1, 0, 2}, kNan);
  call.forward();
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::isnan(call.o.at({0, i, 0, 0})), i == 1);
    EXPECT_EQ(std::isnan(call.lse.at({0, 0, i})), i == 1);
  }
  call.q.set({0, 1, 0, 2}, 1);
  call.k.set({0, 3, 0, 0}, kNan);
  call.options.causal = 1;  // only the last row sees key 3
  call.forward();
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(std::isnan(call.o.at({0, i, 0, 0})), i == 2);
}

}  // namespace
}  // namespace volley::check
