// SPDX-License-Identifier: BSD-3-Clause
//
// The reference with scales and with pages: e4m3 inputs, descales of every grain, a page table.
#include "reference_call.h"

namespace volley::check {
namespace {

constexpr int64_t kB = 2, kS = 192, kHq = 4, kHk = 2, kD = 16;

Call fp8_call(uint64_t seed) {
  std::mt19937_64 random(seed);
  Call call;
  call.q = random_tensor(VOLLEY_E4M3, {kB, kS, kHq, kD}, &random);
  call.k = random_tensor(VOLLEY_E4M3, {kB, kS, kHk, kD}, &random);
  call.v = random_tensor(VOLLEY_E4M3, {kB, kS, kHk, kD}, &random);
  call.add_outputs(VOLLEY_F32);
  return call;
}

HostTensor ones(std::vector<int64_t> shape, int32_t dtype = VOLLEY_F32) {
  return tensor_of(dtype, std::move(shape), {1});
}

TEST(ReferenceFp8, MissingScalesAreOnes) {
  Call call = fp8_call(1);
  call.forward();
  const HostTensor o = call.o.clone();
  for (const int32_t dtype : {VOLLEY_F32, VOLLEY_E8M0}) {
    call.q_descale = ones({kB, kHq, 2}, dtype);
    call.k_descale = ones({kB, kHk, 2}, dtype);
    call.v_descale = ones({1, 1, 1}, dtype);
    call.forward();
    EXPECT_TRUE(same_bits(call.o, o));
  }
}

TEST(ReferenceFp8, ScalesOfVActOnTheirHeadOnly) {
  Call call = fp8_call(2);
  call.v_descale = ones({kB, kHk, 1});
  call.options.v_scale_block = 192;
  call.forward();
  const HostTensor o = call.o.clone();
  call.v_descale.set({1, 0, 0}, 2);
  call.forward();
  for (int64_t b = 0; b < kB; ++b) {
    for (int64_t i = 0; i < kS; ++i) {
      for (int64_t h = 0; h < kHq; ++h) {
        const double factor = b == 1 && h / (kHq / kHk) == 0 ? 2 : 1;
        EXPECT_EQ(call.o.at({b, i, h, 9}), factor * o.at({b, i, h, 9}));
      }
    }
  }
}

TEST(ReferenceFp8, APowerOfTwoMovesFreely) {
  Call call = fp8_call(3);
  call.options.scale = 0.125;
  call.forward();
  const HostTensor o = call.o.clone();
  call.q_descale = ones({kB, kHk, 2});  // per key head
  call.k_descale = ones({kB, kHk, 2});
  call.q_descale.fill(4);
  call.options.scale = 0.125 / 4;
  call.forward();
  EXPECT_TRUE(same_bits(call.o, o));
  call.k_descale.fill(0.25);
  call.options.scale = 0.125;
  call.forward();
  EXPECT_TRUE(same_bits(call.o, o));
}

// Queries of one head divided by 2, exactly in e4m3, and its scale doubled.
TEST(ReferenceFp8, ScalesOfQMayBePerQueryHead) {
  Call call = fp8_call(6);
  for (int64_t i = 0; i < call.q.size(); ++i) call.q.set_flat(i, i % 3 == 0 ? 1.5 : -0.5);
  call.forward();
  const HostTensor o = call.o.clone();
  call.q_descale = ones({kB, kHq, 2});
  for (int64_t i = 0; i < kS; ++i) {
    for (int64_t e = 0; e < kD; ++e) call.q.set({1, i, 3, e}, call.q.at({1, i, 3, e}) / 2);
    call.q_descale.set({1, 3, i / 128}, 2);
  }
  call.forward();
  EXPECT_TRUE(same_bits(call.o, o));
}

// Keys of one block divided by 2, exactly in e4m3, and its scale doubled.
TEST(ReferenceFp8, BlocksCountFromTheSequencesFirstToken) {
  Call call = fp8_call(4);
  for (int64_t i = 0; i < call.k.size(); ++i) call.k.set_flat(i, i % 3 == 0 ? 1.5 : -0.5);
  call.forward();
  const HostTensor o = call.o.clone();
  call.options.k_scale_block = 48;
  call.k_descale = ones({kB, kHk, 4});
  for (int64_t b = 0; b < kB; ++b) {
    for (int64_t j = 96; j < 144; ++j) {
      for (int64_t e = 0; e < kD; ++e) call.k.set({b, j, 1, e}, call.k.at({b, j, 1, e}) / 2);
    }
    call.k_descale.set({b, 1, 2}, 2);
  }
  call.forward();
  EXPECT_TRUE(same_bits(call.o, o));

  // The same rows packed, the second sequence's blocks counted from its own start.
  Call packed = fp8_call(4);
  packed.k = tensor_of(VOLLEY_E4M3, {kB * kS, kHk, kD}, {0});
  for (int64_t i = 0; i < packed.k.size(); ++i) packed.k.set_flat(i, call.k.flat(i));
  for (HostTensor* tensor : {&packed.q, &packed.v}) {
    HostTensor rows(VOLLEY_E4M3, {kB * kS, tensor->shape()[2], kD});
    for (int64_t i = 0; i < rows.size(); ++i) rows.set_flat(i, tensor->flat(i));
    *tensor = rows;
  }
  packed.cu_seqlens_q = lengths({0, kS, 2 * kS});
  packed.cu_seqlens_k = lengths({0, kS, 2 * kS});
  packed.options.max_seqlen_k = kS;
  packed.options.k_scale_block = 48;
  packed.k_descale = call.k_descale;
  packed.add_outputs(VOLLEY_F32);
  packed.forward();
  for (int64_t i = 0; i < o.size(); ++i) ASSERT_EQ(packed.o.flat(i), o.flat(i)) << i;
}

TEST(ReferenceFp8, ScalesOfTheWrongShapeAreRefused) {
  Call call = fp8_call(5);
  call.k_descale = ones({kB, kHq, 2});
  EXPECT_EQ(call.run(VOLLEY_OP_FORWARD), VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(call.error.reason, VOLLEY_REASON_SHAPE);
  EXPECT_TRUE(call.o.untouched());
}

// K = 0: the weights are uniform, so o is the mean of v, whatever the length.
TEST(ReferenceFp8, UniformWeightsGiveTheMean) {
  for (const int64_t sk : {1000, 3000}) {
    std::mt19937_64 random(25);
    Call call;
    call.q = random_tensor(VOLLEY_E4M3, {1, 3, 8, 16}, &random);
    call.k = tensor_of(VOLLEY_E4M3, {1, sk, 1, 16}, {0});
    call.v = HostTensor(VOLLEY_E4M3, {1, sk, 1, 16});
    const double values[] = {0.5625, 0.875, 1.0, 1.125};
    for (int64_t i = 0; i < call.v.size(); ++i) call.v.set_flat(i, values[random() % 4]);
    call.add_outputs(VOLLEY_F64);
    call.forward();
    for (int64_t e = 0; e < 16; ++e) {
      double mean = 0;
      for (int64_t j = 0; j < sk; ++j) mean += call.v.at({0, j, 0, e}) / static_cast<double>(sk);
      for (int64_t h = 0; h < 8; ++h) EXPECT_NEAR(call.o.at({0, 2, h, e}), mean, 1e-13);
    }
  }
}

// A dense cache and the same rows scattered over pages, with the scales on the pages.
TEST(ReferencePaged, PagesAreTheDenseRows) {
  constexpr int64_t kPage = 6;
  constexpr int64_t kSlots = 3;
  constexpr int64_t kPages = 8;
  const int64_t used[] = {13, 0, 6};
  const int64_t table[3][kSlots] = {{5, 0, 7}, {-1, -1, -1}, {2, 99, 99}};
  std::mt19937_64 random(18);
  for (const int32_t dtype : {VOLLEY_BF16, VOLLEY_E4M3}) {
    Call dense;
    dense.q = random_tensor(dtype, {3, 4, 4, 8}, &random);
    dense.k = random_tensor(dtype, {3, kSlots * kPage, 2, 8}, &random);
    dense.v = random_tensor(dtype, {3, kSlots * kPage, 2, 5}, &random);
    dense.seqused_k = lengths({13, 0, 6});
    dense.options.causal = 1;
    dense.options.k_scale_block = 3;
    dense.options.v_scale_block = 2;
    if (dtype == VOLLEY_E4M3) {
      dense.k_descale = HostTensor(VOLLEY_F32, {3, 2, 6});
      dense.v_descale = HostTensor(VOLLEY_F32, {3, 2, 9});
      for (HostTensor* scales : {&dense.k_descale, &dense.v_descale}) {
        for (int64_t i = 0; i < scales->size(); ++i) {
          scales->set_flat(i, 0.5 + static_cast<double>(random() % 100) / 100);
        }
      }
    }
    dense.add_outputs(VOLLEY_F32);
    dense.forward();

    Call paged = dense;
    paged.k = HostTensor(dtype, {kPages, kPage, 2, 8});
    paged.v = HostTensor(dtype, {kPages, kPage, 2, 5});
    paged.page_table = HostTensor(VOLLEY_I32, {3, kSlots});
    if (dtype == VOLLEY_E4M3) {
      paged.k_descale = HostTensor(VOLLEY_F32, {kPages, 2, 2});
      paged.v_descale = HostTensor(VOLLEY_F32, {kPages, 2, 3});
    }
    for (int64_t n = 0; n < 3; ++n) {
      for (int64_t slot = 0; slot < kSlots; ++slot) {
        paged.page_table.set({n, slot}, static_cast<double>(table[n][slot]));
      }
      for (int64_t j = 0; j < used[n]; ++j) {
        const int64_t page = table[n][j / kPage];
        const int64_t row = j % kPage;
        for (int64_t h = 0; h < 2; ++h) {
          for (int64_t e = 0; e < 8; ++e) paged.k.set({page, row, h, e}, dense.k.at({n, j, h, e}));
          for (int64_t e = 0; e < 5; ++e) paged.v.set({page, row, h, e}, dense.v.at({n, j, h, e}));
          if (dtype != VOLLEY_E4M3) continue;
          paged.k_descale.set({page, h, row / 3}, dense.k_descale.at({n, h, j / 3}));
          paged.v_descale.set({page, h, row / 2}, dense.v_descale.at({n, h, j / 2}));
        }
      }
    }
    paged.add_outputs(VOLLEY_F32);
    paged.forward();
    EXPECT_TRUE(same_bits(paged.o, dense.o));
    EXPECT_TRUE(same_bits(paged.lse, dense.lse));
  }
}

// A page that two sequences read, one of them twice, gets the sum of the dense gradients.
TEST(ReferencePaged, GradientsOfSharedPagesAddUp) {
  constexpr int64_t kPage = 2, kPages = 4, kSequences = 2, kSk = 4;
  const int64_t used[kSequences] = {4, 3};
  const int64_t table[kSequences][kSk / kPage] = {{1, 3}, {1, 1}};
  std::mt19937_64 random(7);
  Call paged;
  paged.q = random_tensor(VOLLEY_F64, {kSequences, 3, 2, 4}, &random);
  paged.k = random_tensor(VOLLEY_F64, {kPages, kPage, 1, 4}, &random);
  paged.v = random_tensor(VOLLEY_F64, {kPages, kPage, 1, 5}, &random);
  paged.dout = random_tensor(VOLLEY_F64, {kSequences, 3, 2, 5}, &random);
  paged.page_table = tensor_of(VOLLEY_I32, {kSequences, 2}, {1, 3, 1, 1});
  paged.seqused_k = lengths({4, 3});

  Call dense = paged;
  dense.page_table = HostTensor();
  dense.k = HostTensor(VOLLEY_F64, {kSequences, kSk, 1, 4});
  dense.v = HostTensor(VOLLEY_F64, {kSequences, kSk, 1, 5});
  const auto for_each_key = [&](auto&& visit) {  // visit(n, j, page, row)
    for (int64_t n = 0; n < kSequences; ++n) {
      for (int64_t j = 0; j < used[n]; ++j) visit(n, j, table[n][j / kPage], j % kPage);
    }
  };
  for_each_key([&](int64_t n, int64_t j, int64_t page, int64_t row) {
    for (int64_t e = 0; e < 4; ++e) dense.k.set({n, j, 0, e}, paged.k.at({page, row, 0, e}));
    for (int64_t e = 0; e < 5; ++e) dense.v.set({n, j, 0, e}, paged.v.at({page, row, 0, e}));
  });
  for (Call* call : {&paged, &dense}) {
    call->add_outputs(VOLLEY_F64, VOLLEY_F64);
    call->add_gradients(VOLLEY_F64);
    call->forward();
    call->backward();
  }
  EXPECT_TRUE(same_bits(paged.dq, dense.dq));

  HostTensor dk = tensor_of(VOLLEY_F64, paged.k.shape(), {0});
  HostTensor dv = tensor_of(VOLLEY_F64, paged.v.shape(), {0});
  for_each_key([&](int64_t n, int64_t j, int64_t page, int64_t row) {
    const auto add = [&](HostTensor* sum, const HostTensor& part, int64_t e) {
      sum->set({page, row, 0, e}, sum->at({page, row, 0, e}) + part.at({n, j, 0, e}));
    };
    for (int64_t e = 0; e < 4; ++e) add(&dk, dense.dk, e);
    for (int64_t e = 0; e < 5; ++e) add(&dv, dense.dv, e);
  });
  EXPECT_LE(largest_difference(paged.dk, dk), 1e-14);
  EXPECT_LE(largest_difference(paged.dv, dv), 1e-14);
  EXPECT_EQ(paged.dk.at({0, 0, 0, 0}), 0);  // a page that nobody reads

  paged.options.accumulate_grads = 1;
  paged.backward();  // on top of what is there
  for (int64_t i = 0; i < dk.size(); ++i) EXPECT_NEAR(paged.dk.flat(i), 2 * dk.flat(i), 1e-13);
}

}  // namespace
}  // namespace volley::check
