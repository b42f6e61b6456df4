// SPDX-License-Identifier: BSD-3-Clause
//
// dtype.h: every 16-bit and 8-bit pattern survives, and rounding is to nearest even.
#include "dtype.h"

#include <gtest/gtest.h>

namespace volley::core {
namespace {

TEST(Dtype, EveryF16PatternSurvives) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = f16_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(value))));
    } else {
      ASSERT_EQ(float_to_f16(value), half) << value;
    }
  }
}

TEST(Dtype, EveryBf16PatternSurvives) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = bf16_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(value))));
    } else {
      ASSERT_EQ(float_to_bf16(value), half) << value;
    }
  }
}

// Between two neighbours a < b: the middle goes to the even one, anything beside it to the nearer.
template <class Bits>
void check_rounding(Bits count, float (*decode)(Bits), Bits (*encode)(float)) {
  for (Bits bits = 0; bits + 1 < count; ++bits) {
    const float low = decode(bits);
    const float high = decode(static_cast<Bits>(bits + 1));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(encode(middle), bits % 2 == 0 ? bits : bits + 1) << middle;
    ASSERT_EQ(encode(std::nextafter(middle, INFINITY)), bits + 1) << middle;
    ASSERT_EQ(encode(std::nextafter(middle, 0.0f)), bits) << middle;
    ASSERT_EQ(decode(encode(-low)), -low);
  }
}

TEST(Dtype, RoundsToNearestEven) {
  check_rounding<uint16_t>(0x7c00, f16_to_float, float_to_f16);
  check_rounding<uint8_t>(0x7f, e4m3_to_float, float_to_e4m3);
}

TEST(Dtype, F16MatchesTheCompilersOwn) {
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 9973) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_f16(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
  }
}

TEST(Dtype, E4m3SaturatesAndKnowsNan) {
  EXPECT_EQ(e4m3_to_float(float_to_e4m3(1e9f)), 448.0f);
  EXPECT_EQ(e4m3_to_float(float_to_e4m3(-INFINITY)), -448.0f);
  EXPECT_TRUE(std::isnan(e4m3_to_float(float_to_e4m3(NAN))));
  EXPECT_EQ(e4m3_to_float(1), 0x1p-9f);
}

TEST(Dtype, E8m0IsAPowerOfTwo) {
  EXPECT_EQ(e8m0_to_float(127), 1.0f);
  EXPECT_EQ(e8m0_to_float(0), 0x1p-127f);
  EXPECT_EQ(e8m0_to_float(254), 0x1p127f);
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

TEST(Dtype, DoubleRoundsOnce) {
  // 1 + 2^-8 + 2^-40 is above the middle of two bf16 neighbours, but rounds to the middle in fp32.
  const double value = 1 + 0x1p-8 + 0x1p-40;
  uint16_t bits = 0;
  store_element(VOLLEY_BF16, &bits, 0, value);
  EXPECT_EQ(bf16_to_float(bits), 1 + 0x1p-7f);
  store_element(VOLLEY_BF16, &bits, 0, 1 + 0x1p-8 - 0x1p-40);
  EXPECT_EQ(bf16_to_float(bits), 1.0f);
}

}  // namespace
}  // namespace volley::core
