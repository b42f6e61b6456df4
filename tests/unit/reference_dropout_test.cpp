// SPDX-License-Identifier: BSD-3-Clause
//
// dropout.h: Philox4x32-10 gives the published answers, and its words drop at the asked rate.
#include "dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace volley::core {
namespace {

void expect_words(PhiloxCounter counter, PhiloxKey key, PhiloxCounter wanted) {
  const PhiloxCounter words = philox4x32(counter, key);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(words.word[i], wanted.word[i]) << "word " << i;
}

// From kat_vectors of Random123, the authors' own implementation.
TEST(Dropout, PhiloxKnownAnswers) {
  expect_words({{0, 0, 0, 0}}, {{0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  expect_words({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, {{0xffffffff, 0xffffffff}},
               {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  expect_words({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}},
               {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST(Dropout, KeyDependsOnEveryWordOfSeedAndOffset) {
  const PhiloxKey base = dropout_key(1, 2);
  const uint64_t high = uint64_t{1} << 32;
  for (const PhiloxKey key :
       {dropout_key(2, 2), dropout_key(1, 3), dropout_key(1 + high, 2), dropout_key(1, 2 + high)}) {
    EXPECT_NE(key.word[0], base.word[0]);
    EXPECT_NE(key.word[1], base.word[1]);
  }
}

TEST(Dropout, ThresholdIsTheFloor) {
  EXPECT_EQ(dropout_threshold(0), 0u);
  EXPECT_EQ(dropout_threshold(0.5), 0x80000000u);
  EXPECT_EQ(dropout_threshold(0.1), 429496729u);
  EXPECT_EQ(dropout_threshold(std::nextafter(1.0, 0.0)), 0xffffffffu);
}

// 2^20 weights: the count of dropped ones is within five standard deviations, along every axis.
TEST(Dropout, DropsAtTheAskedRate) {
  constexpr int64_t kWords = 1 << 20;
  const PhiloxKey key = dropout_key(0x5eed, 7);
  for (const double p : {0.01, 0.1, 0.5, 0.9}) {
    for (int axis = 0; axis < 4; ++axis) {
      int64_t dropped = 0;
      for (uint32_t group = 0; group < kWords / 4; ++group) {
        const auto along = [&](int a) { return a == axis ? group : 3u; };
        const PhiloxCounter words = dropout_words(key, along(0), along(1), along(2), along(3));
        for (const uint32_t word : words.word) dropped += word < dropout_threshold(p);
      }
      const double sigma = std::sqrt(kWords * p * (1 - p));
      EXPECT_NEAR(static_cast<double>(dropped), kWords * p, 5 * sigma) << p << ", axis " << axis;
    }
  }
}

}  // namespace
}  // namespace volley::core
