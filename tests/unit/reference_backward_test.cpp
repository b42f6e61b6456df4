// SPDX-License-Identifier: BSD-3-Clause
//
// The reference backward against values worked out by hand, and what must not matter to it.
#include "reference_features.h"

namespace volley::check {
namespace {

TEST(ReferenceBackward, CausalWithMoreQueriesThanKeys) {
  for (const int32_t dtype : {VOLLEY_F32, VOLLEY_BF16}) {
    Call call;
    call.q = tensor_of(dtype, {1, 5, 1, 64}, {1});
    call.k = tensor_of(dtype, {1, 2, 1, 64}, {0});
    call.v = HostTensor(dtype, {1, 2, 1, 64});
    for (int64_t e = 0; e < 64; ++e) {
      call.v.set({0, 0, 0, e}, 1);
      call.v.set({0, 1, 0, e}, 3);
    }
    call.options.causal = 1;
    call.add_outputs(dtype);
    call.add_gradients(dtype);
    call.dout = tensor_of(dtype, {1, 5, 1, 64}, {1});
    call.forward();
    call.backward();
    for (int64_t e = 0; e < 64; ++e) {
      EXPECT_EQ(call.dv.at({0, 0, 0, e}), 1.5);
      EXPECT_EQ(call.dv.at({0, 1, 0, e}), 0.5);
      EXPECT_EQ(call.dk.at({0, 0, 0, e}), -4);
      EXPECT_EQ(call.dk.at({0, 1, 0, e}), 4);
    }
    expect_all(call.dq, 0);
  }
}

TEST(ReferenceBackward, VarlenWhereAlmostAllRowsAreMasked) {
  std::mt19937_64 random(8);
  Call call;
  call.q = random_tensor(VOLLEY_F16, {256, 1, 32}, &random, 3);
  call.k = random_tensor(VOLLEY_F16, {3, 1, 32}, &random, 3);
  call.v = random_tensor(VOLLEY_F16, {3, 1, 32}, &random, 3);
  call.dout = random_tensor(VOLLEY_F16, {256, 1, 32}, &random);
  call.cu_seqlens_q = lengths({0, 76, 110, 256});
  call.cu_seqlens_k = lengths({0, 1, 2, 3});
  call.options.causal = 1;
  call.add_outputs(VOLLEY_F16);
  call.add_gradients(VOLLEY_F16);
  call.forward();
  call.backward();
  expect_all(call.dq, 0);
  expect_all(call.dk, 0);
  const int64_t last[] = {75, 109, 255};
  for (int64_t j = 0; j < 3; ++j) {
    for (int64_t e = 0; e < 32; ++e) {
      EXPECT_EQ(call.dv.at({j, 0, e}), call.dout.at({last[j], 0, e}));
    }
  }
}

// One query of one dim, scaled logits s0 and s1.
Call two_keys(double s0, double s1, double v0, double v1) {
  Call call;
  call.q = tensor_of(VOLLEY_F64, {1, 1, 1, 1}, {1});
  call.k = tensor_of(VOLLEY_F64, {1, 2, 1, 1}, {s0, s1});
  call.v = tensor_of(VOLLEY_F64, {1, 2, 1, 1}, {v0, v1});
  call.dout = tensor_of(VOLLEY_F64, {1, 1, 1, 1}, {1});
  call.add_outputs(VOLLEY_F64, VOLLEY_F64);
  return call;
}

TEST(ReferenceBackward, Softcap) {
  Call call = two_keys(2, 0, 1, 0);
  call.options.softcap = 2;
  call.add_gradients(VOLLEY_F64);
  call.forward();
  call.backward();
  EXPECT_NEAR(call.dk.flat(0), 0.061717, 1e-6);  // d o / d logit 0, since q and scale are 1
}

TEST(ReferenceBackward, Sink) {
  Call call = two_keys(0, 0, 5, 7);
  call.sink = tensor_of(VOLLEY_F32, {1}, {0});
  call.add_gradients(VOLLEY_F64);
  call.forward();
  call.backward();
  EXPECT_NEAR(call.dsink.flat(0), -4.0 / 3, 1e-15);  // -(1/3) dO O
}

TEST(ReferenceBackward, SinkOfARowWithoutKeys) {
  Call call = two_keys(0, 0, 5, 7);
  call.sink = tensor_of(VOLLEY_F32, {1}, {0.5});
  call.seqused_k = lengths({0});
  call.dlse = tensor_of(VOLLEY_F64, {1, 1, 1}, {3});
  call.add_gradients(VOLLEY_F64);
  call.forward();
  call.backward();
  expect_values(call.dsink, {3});  // lse is the sink
  for (const HostTensor* gradient : {&call.dq, &call.dk, &call.dv}) expect_all(*gradient, 0);
}

// loss = sum lse: dq = scale P K, dv = 0.
TEST(ReferenceBackward, GradientOfLse) {
  Call call = two_keys(1, -1, 5, 7);
  call.dout.fill(0);
  call.dlse = tensor_of(VOLLEY_F64, {1, 1, 1}, {1});
  call.add_gradients(VOLLEY_F64);
  call.forward();
  call.backward();
  EXPECT_NEAR(call.dq.flat(0), std::tanh(1), 1e-15);
  expect_all(call.dv, 0);
}

// The oracle needs neither o nor lse; NaN in dlse of rows without keys does not matter.
TEST(ReferenceBackward, OutputsAndDlseOfEmptyRowsDoNotMatter) {
  Call call = make_call(kShifted | kUsed | kLseGradient, 1);
  call.forward();
  call.backward();
  const HostTensor dq = call.dq.clone();
  const HostTensor dk = call.dk.clone();
  int64_t empty = 0;
  for (int64_t i = 0; i < call.lse.size(); ++i) {
    if (call.lse.flat(i) != -kInf) continue;
    call.dlse.set_flat(i, kNan);
    ++empty;
  }
  ASSERT_GT(empty, 0);
  call.o.poison();
  call.lse.poison();
  call.backward();
  EXPECT_TRUE(same_bits(call.dq, dq));
  EXPECT_TRUE(same_bits(call.dk, dk));
}

TEST(ReferenceBackward, AccumulatesAndRoundsOnce) {
  for (const uint32_t features : {0u, kEveryFeature & ~kBias, kEveryFeature & ~kBroadcastBias}) {
    Call call = make_call(features, 11);
    call.forward();
    call.backward();
    const std::vector<HostTensor*> gradients = {&call.dq, &call.dk, &call.dv, &call.dbias,
                                                &call.dsink};
    std::vector<HostTensor> before;
    std::vector<HostTensor> alone;
    std::mt19937_64 random(12);
    for (HostTensor* gradient : gradients) {
      alone.push_back(gradient->clone());
      if (gradient->present()) *gradient = random_tensor(VOLLEY_F64, gradient->shape(), &random);
      before.push_back(gradient->clone());
    }
    call.options.accumulate_grads = 1;
    call.backward();
    for (size_t g = 0; g < gradients.size(); ++g) {
      for (int64_t i = 0; i < gradients[g]->size(); ++i) {
        ASSERT_EQ(gradients[g]->flat(i), before[g].flat(i) + alone[g].flat(i));
      }
    }
  }
}

TEST(ReferenceBackward, ThreadsDoNotChangeABit) {
  std::mt19937_64 random(13);
  Call call;  // large enough for several threads
  call.q = random_tensor(VOLLEY_F64, {1, 100, 4, 64}, &random);
  call.k = random_tensor(VOLLEY_F64, {1, 100, 2, 64}, &random);
  call.v = random_tensor(VOLLEY_F64, {1, 100, 2, 64}, &random);
  call.dout = random_tensor(VOLLEY_F64, {1, 100, 4, 64}, &random);
  call.add_outputs(VOLLEY_F64);
  call.add_gradients(VOLLEY_F64);
  call.options.num_threads = 1;
  call.forward();
  call.backward();
  const std::vector<HostTensor> one = {call.o.clone(), call.dq.clone(), call.dk.clone(),
                                       call.dv.clone()};
  call.options.num_threads = 7;
  call.forward();
  call.backward();
  EXPECT_TRUE(same_bits(call.o, one[0]));
  EXPECT_TRUE(same_bits(call.dq, one[1]));
  EXPECT_TRUE(same_bits(call.dk, one[2]));
  EXPECT_TRUE(same_bits(call.dv, one[3]));
}

TEST(ReferenceBackward, UnusedRowsGetZeros) {
  Call call = make_call(kVarlen | kUsed, 14);
  call.forward();
  call.backward();
  const auto expect_zero_rows = [](const HostTensor& tensor, int64_t first, int64_t last) {
    const int64_t row = tensor.shape()[1] * tensor.shape()[2];
    for (int64_t i = first * row; i < last * row; ++i) EXPECT_EQ(tensor.flat(i), 0) << i;
  };
  for (const HostTensor* tensor : {&call.o, &call.dq}) {
    expect_zero_rows(*tensor, 2, 3);  // past the used length of sequence 0
    expect_zero_rows(*tensor, 7, 9);  // past the last sequence
  }
  for (const HostTensor* tensor : {&call.dk, &call.dv}) {
    expect_zero_rows(*tensor, 4, 5);
    expect_zero_rows(*tensor, 8, 12);
  }
  for (const int64_t row : {2, 7, 8}) {
    for (int64_t h = 0; h < 4; ++h) EXPECT_EQ(call.lse.at({h, row}), -kInf);
  }
}

// A logit of -inf hides its key as a mask does: NaN that comes from it reaches nobody.
TEST(ReferenceBackward, LogitOfMinusInfinityIsAKeyNotSeen) {
  Call call = two_keys(1, 1, 5, kNan);
  call.k.set_flat(1, -kInf);
  call.dlse = tensor_of(VOLLEY_F64, {1, 1, 1}, {0.5});
  call.bias = tensor_of(VOLLEY_F64, {1, 1, 1, 2}, {0});
  call.add_gradients(VOLLEY_F64);
  call.forward();
  call.backward();
  EXPECT_EQ(call.o.flat(0), 5);
  EXPECT_EQ(call.dq.flat(0), 0.5);
  expect_values(call.dk, {0.5, 0});
  expect_values(call.dv, {1, 0});
  expect_values(call.dbias, {0.5, 0});
}

}  // namespace
}  // namespace volley::check
