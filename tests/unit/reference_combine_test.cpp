// SPDX-License-Identifier: BSD-3-Clause
//
// volley_combine: parts over disjoint keys merge into the whole; empty parts are not read; what is
// wrong is refused with a sentence.
#include "reference_call.h"

namespace volley::check {
namespace {

// Slice `n` of a tensor along its first axis, sharing memory.
volley_tensor slice(const HostTensor& parts, int64_t n) {
  volley_tensor view = *parts.view();
  view.data = static_cast<char*>(view.data) + n * view.stride[0] * (view.dtype >> 8 & 0xff) / 8;
  for (int32_t axis = 0; axis + 1 < view.ndim; ++axis) {
    view.shape[axis] = view.shape[axis + 1];
    view.stride[axis] = view.stride[axis + 1];
  }
  --view.ndim;
  return view;
}

struct Parts {
  HostTensor o_parts, lse_parts, sink, o, lse;
  volley_error error{};

  int32_t combine() {
    return volley_combine(o_parts.view(), lse_parts.view(), sink.view(), o.view(), lse.view(),
                          nullptr, &error);
  }
};

// Two parts of one row, one head, one channel.
Parts two_parts(double lse0, double o0, double lse1, double o1) {
  Parts parts;
  parts.o_parts = tensor_of(VOLLEY_F64, {2, 1, 1, 1, 1}, {o0, o1});
  parts.lse_parts = tensor_of(VOLLEY_F64, {2, 1, 1, 1}, {lse0, lse1});
  parts.o = HostTensor(VOLLEY_F64, {1, 1, 1, 1});
  parts.lse = HostTensor(VOLLEY_F64, {1, 1, 1});
  return parts;
}

TEST(Combine, PartsOfOneCallGiveTheWhole) {
  std::mt19937_64 random(1);
  const int64_t sq = 64;
  const int64_t bounds[] = {0, 100, 300, 300};  // the last part has no keys
  Call whole;
  whole.q = random_tensor(VOLLEY_BF16, {1, sq, 2, 64}, &random);
  whole.k = random_tensor(VOLLEY_BF16, {1, 300, 2, 64}, &random);
  whole.v = random_tensor(VOLLEY_BF16, {1, 300, 2, 64}, &random);
  whole.sink = tensor_of(VOLLEY_F32, {2}, {1.5, -0.5});
  whole.add_outputs(VOLLEY_F64, VOLLEY_F64);
  whole.forward();

  Parts parts;
  parts.o_parts = HostTensor(VOLLEY_F64, {3, 1, sq, 2, 64});
  parts.lse_parts = HostTensor(VOLLEY_F64, {3, 1, 2, sq});
  parts.sink = whole.sink;
  parts.o = HostTensor(VOLLEY_F64, {1, sq, 2, 64});
  parts.lse = HostTensor(VOLLEY_F64, {1, 2, sq});
  for (int64_t n = 0; n < 3; ++n) {
    Call part = whole;
    part.sink = {};
    const int64_t rows = bounds[n + 1] - bounds[n];
    for (auto [to, from] : {std::pair{&part.k, &whole.k}, std::pair{&part.v, &whole.v}}) {
      *to = HostTensor(VOLLEY_BF16, {1, rows, 2, 64});
      for (int64_t i = 0; i < to->size(); ++i) to->set_flat(i, from->flat(bounds[n] * 128 + i));
    }
    part.add_outputs(VOLLEY_F64, VOLLEY_F64);
    part.forward();
    for (int64_t i = 0; i < part.o.size(); ++i) {
      parts.o_parts.set_flat(n * part.o.size() + i, n == 2 ? kNan : part.o.flat(i));
    }
    for (int64_t i = 0; i < part.lse.size(); ++i) {
      parts.lse_parts.set_flat(n * part.lse.size() + i, part.lse.flat(i));
    }
  }
  ASSERT_EQ(parts.combine(), VOLLEY_OK) << parts.error.message;
  EXPECT_LT(largest_difference(parts.o, whole.o), 1e-13);
  EXPECT_LT(largest_difference(parts.lse, whole.lse), 1e-13);
}

TEST(Combine, WeightsAreSoftmaxOfLse) {
  Parts parts = two_parts(std::log(1), 10, std::log(3), 20);
  ASSERT_EQ(parts.combine(), VOLLEY_OK);
  EXPECT_NEAR(parts.o.flat(0), 17.5, 1e-13);
  EXPECT_NEAR(parts.lse.flat(0), std::log(4), 1e-15);
  parts.sink = tensor_of(VOLLEY_F32, {1}, {0});  // exp(0) = 1 joins the sum
  ASSERT_EQ(parts.combine(), VOLLEY_OK);
  EXPECT_NEAR(parts.o.flat(0), 14, 1e-13);
  EXPECT_NEAR(parts.lse.flat(0), std::log(5), 1e-15);
}

TEST(Combine, HugeLseDoNotOverflow) {
  Parts parts = two_parts(-46340, 1, -46340, 3);
  ASSERT_EQ(parts.combine(), VOLLEY_OK);
  EXPECT_EQ(parts.o.flat(0), 2);
  EXPECT_NEAR(parts.lse.flat(0), -46340 + std::log(2), 1e-10);
}

TEST(Combine, EmptyPartsAreNotRead) {
  Parts parts = two_parts(-kInf, kNan, 2, 7);
  ASSERT_EQ(parts.combine(), VOLLEY_OK);
  EXPECT_EQ(parts.o.flat(0), 7);
  EXPECT_EQ(parts.lse.flat(0), 2);

  Parts none = two_parts(-kInf, kNan, -kInf, kInf);
  ASSERT_EQ(none.combine(), VOLLEY_OK);
  EXPECT_EQ(none.o.flat(0), 0);
  EXPECT_EQ(none.lse.flat(0), -kInf);
  none.sink = tensor_of(VOLLEY_F32, {1}, {-2});
  ASSERT_EQ(none.combine(), VOLLEY_OK);
  EXPECT_EQ(none.o.flat(0), 0);
  EXPECT_EQ(none.lse.flat(0), -2);
}

TEST(Combine, NanAndInfinityStayVisible) {
  for (const double bad : {kNan, kInf}) {
    Parts parts = two_parts(bad, 1, 2, 7);
    ASSERT_EQ(parts.combine(), VOLLEY_OK);
    EXPECT_TRUE(std::isnan(parts.o.flat(0)));
    EXPECT_TRUE(std::isnan(parts.lse.flat(0)));
  }
  Parts parts = two_parts(-2000, kNan, 2, 7);  // not empty, though its weight underflows
  ASSERT_EQ(parts.combine(), VOLLEY_OK);
  EXPECT_TRUE(std::isnan(parts.o.flat(0)));
}

TEST(Combine, PackedWithoutLseInSixteenBits) {
  Parts parts;
  parts.o_parts = tensor_of(VOLLEY_F32, {2, 3, 1, 2}, {1});
  parts.lse_parts = tensor_of(VOLLEY_F32, {2, 1, 3}, {0});
  parts.o = HostTensor(VOLLEY_BF16, {3, 1, 2});
  ASSERT_EQ(parts.combine(), VOLLEY_OK) << parts.error.message;
  expect_all(parts.o, 1);
}

TEST(Combine, ZeroSizesReturn) {
  Parts parts;
  parts.o_parts = HostTensor(VOLLEY_F32, {0, 2, 1, 3});
  parts.lse_parts = HostTensor(VOLLEY_F32, {0, 1, 2});
  parts.o = HostTensor(VOLLEY_F32, {2, 1, 3});
  parts.lse = HostTensor(VOLLEY_F32, {1, 2});
  ASSERT_EQ(parts.combine(), VOLLEY_OK) << parts.error.message;
  expect_all(parts.o, 0);
  expect_values(parts.lse, {-kInf, -kInf});
}

// o over a part's own memory: each element is read before it is written.
TEST(Combine, InPlace) {
  Parts parts = two_parts(std::log(1), 10, std::log(3), 20);
  const volley_tensor o = slice(parts.o_parts, 1);
  const volley_tensor lse = slice(parts.lse_parts, 1);
  ASSERT_EQ(volley_combine(parts.o_parts.view(), parts.lse_parts.view(), nullptr, &o, &lse, nullptr,
                           &parts.error),
            VOLLEY_OK);
  EXPECT_NEAR(parts.o_parts.flat(1), 17.5, 1e-13);
  EXPECT_NEAR(parts.lse_parts.flat(1), std::log(4), 1e-15);
}

void expect_refusal(Parts parts, int32_t code, int32_t reason, const std::string& message) {
  EXPECT_EQ(parts.combine(), code);
  EXPECT_EQ(parts.error.reason, reason);
  EXPECT_EQ(std::string(parts.error.message), message);
}

TEST(Combine, RefusesWithASentence) {
  Parts good = two_parts(0, 1, 0, 1);
  Parts parts = good;
  parts.o = {};
  expect_refusal(parts, VOLLEY_INVALID_ARGUMENT, VOLLEY_REASON_NULL, "o is NULL");
  parts = good;
  parts.o_parts.view()->data = nullptr;
  expect_refusal(parts, VOLLEY_INVALID_ARGUMENT, VOLLEY_REASON_NULL, "o_parts.data is NULL");
  parts = good;
  parts.lse_parts = HostTensor(VOLLEY_F32, {3, 1, 1, 1});
  expect_refusal(parts, VOLLEY_INVALID_ARGUMENT, VOLLEY_REASON_SHAPE,
                 "lse_parts has shape (3, 1, 1, 1), wanted (n, b, hq, sq) = (2, 1, 1, 1)");
  parts = good;
  parts.lse_parts = HostTensor(VOLLEY_BF16, {2, 1, 1, 1});
  expect_refusal(parts, VOLLEY_INVALID_ARGUMENT, VOLLEY_REASON_DTYPE,
                 "lse_parts is bf16, wanted fp32 or fp64");
  parts = good;
  parts.sink = HostTensor(VOLLEY_F32, {2});
  expect_refusal(parts, VOLLEY_INVALID_ARGUMENT, VOLLEY_REASON_SHAPE,
                 "sink has shape (2,), wanted (hq) = (1,)");
  parts = good;
  parts.o_parts = HostTensor(VOLLEY_F64, {2, 1, 3, 1, 1});
  parts.lse_parts = HostTensor(VOLLEY_F64, {2, 1, 1, 3});
  parts.lse = {};
  parts.o = HostTensor(VOLLEY_F64, {1, 3, 1, 1}, {0, 0, 0, 0});
  expect_refusal(parts, VOLLEY_INVALID_ARGUMENT, VOLLEY_REASON_OVERLAP,
                 "o has elements that share memory or strides that interleave: an output needs a "
                 "place for each element");
  parts = good;
  parts.o.view()->device_type = VOLLEY_DEVICE_CUDA;
  expect_refusal(parts, VOLLEY_NOT_OFFERED, VOLLEY_REASON_DEVICE,
                 "o is not in host memory: volley_combine is on the CPU only");
}

}  // namespace
}  // namespace volley::check
