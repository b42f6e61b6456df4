// SPDX-License-Identifier: BSD-3-Clause
//
// HostTensor: strides land where they should, and a stray write is seen.
#include "tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace volley::check {
namespace {

TEST(HostTensor, StartsPoisonedToTheLastByte) {
  for (int32_t dtype :
       {VOLLEY_F64, VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16, VOLLEY_E4M3, VOLLEY_E8M0}) {
    const HostTensor t(dtype, {2, 3});
    for (int64_t i = 0; i < 6; ++i) EXPECT_TRUE(std::isnan(t.flat(i)));
    EXPECT_TRUE(t.untouched());
  }
  EXPECT_EQ(HostTensor(VOLLEY_I32, {1}).flat(0), 0x7f7f7f7f);
}

TEST(HostTensor, RoundTripsEveryDtypeThroughOddStrides) {
  for (int32_t dtype : {VOLLEY_F64, VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16, VOLLEY_E4M3, VOLLEY_I32,
                        VOLLEY_I64, VOLLEY_BOOL, VOLLEY_E8M0}) {
    HostTensor t(dtype, {2, 3, 5}, {-31, 10, 2}, 3);
    const bool two_valued = dtype == VOLLEY_BOOL;
    const auto value = [&](int64_t i) {
      if (dtype == VOLLEY_E8M0) return std::ldexp(1.0, static_cast<int>(i) - 9);
      return two_valued ? static_cast<double>(i % 2) : static_cast<double>(i % 16);
    };
    for (int64_t i = 0; i < t.size(); ++i) t.set_flat(i, value(i));
    for (int64_t i = 0; i < t.size(); ++i) EXPECT_EQ(t.at({i / 15, i / 5 % 3, i % 5}), value(i));
    EXPECT_TRUE(t.untouched_outside());
    EXPECT_FALSE(t.untouched());
    EXPECT_TRUE(same_bits(t, t.contiguous()));
    EXPECT_TRUE(same_bits(t, t.clone()));
  }
}

TEST(HostTensor, SeesAWriteIntoGapsAndMargins) {
  HostTensor t(VOLLEY_BF16, {4, 8}, {16, 1});
  t.fill(1);
  ASSERT_TRUE(t.untouched_outside());
  for (const int64_t stray : {-1, 8, 56}) {
    HostTensor copy = t.clone();
    static_cast<uint16_t*>(copy.data())[stray] = 0;
    EXPECT_FALSE(copy.untouched_outside()) << stray;
  }
}

TEST(HostTensor, PermutedAndEmptyAndAligned) {
  const int order[] = {0, 2, 1, 3};
  const HostTensor t = HostTensor::permuted(VOLLEY_F16, {2, 5, 3, 8}, order);
  EXPECT_EQ(t.stride(), (std::vector<int64_t>{120, 8, 40, 1}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(t.data()) % 128, 0u);
  const HostTensor shifted(VOLLEY_F16, {4}, {1}, 1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(shifted.data()) % 128, 2u);
  const HostTensor empty(VOLLEY_F32, {0, 4});
  EXPECT_EQ(empty.size(), 0);
  EXPECT_TRUE(empty.present());
  EXPECT_TRUE(empty.untouched_outside());
  EXPECT_EQ(HostTensor().view(), nullptr);
}

TEST(HostTensor, SameBitsIsAboutBits) {
  HostTensor a(VOLLEY_F32, {2});
  a.fill(0.0);
  HostTensor b = a.clone();
  EXPECT_TRUE(same_bits(a, b));
  b.set({1}, -0.0);
  EXPECT_FALSE(same_bits(a, b));
  EXPECT_FALSE(same_bits(a, HostTensor(VOLLEY_F32, {2, 1})));
}

}  // namespace
}  // namespace volley::check
