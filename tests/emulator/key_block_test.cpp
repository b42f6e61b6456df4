// SPDX-License-Identifier: BSD-3-Clause
//
// The order in which the V2 backward's blocks of keys are dealt out.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "cuda/sm80/key_block.cuh"

namespace volley::test {
namespace {

using namespace cuda::v2;  // NOLINT: all of this file is about it

constexpr Config kConfig = backward_config(0);

// Three sequences of five key heads, three blocks each.
BackwardParams params(int section) {
  BackwardParams p{};
  p.heads = 10;
  p.key_heads = 5;
  p.group = 2;
  p.sq = 1000;
  p.sk = 2 * kConfig.block_n + 1;
  p.key_blocks = 3;
  p.blocks = 3 * 5 * p.key_blocks;
  p.section = section;
  p.lengths.low = -p.sq - p.sk;
  p.lengths.high = p.sq + p.sk;
  return p;
}

TEST(KeyBlocks, EachIsDealtOutOnce) {
  for (const int section : {1, 2, 4, 15}) {
    const BackwardParams p = params(section);
    std::set<std::array<int, 3>> seen;
    for (int number = 0; number < p.blocks; ++number) {
      const KeyWork work = find_key_work<kConfig>(p, number);
      EXPECT_LT(work.batch, 3);
      EXPECT_LT(work.key_head, 5);
      EXPECT_EQ(work.first_key % kConfig.block_n, 0);
      EXPECT_LT(work.first_key, p.sk);
      seen.insert({work.batch, work.key_head, work.first_key});
    }
    EXPECT_EQ(static_cast<int>(seen.size()), p.blocks) << section;
  }
}

TEST(KeyBlocks, FirstBlocksOfASectionComeFirst) {
  constexpr int kSection = 4;
  const BackwardParams p = params(kSection);
  int before = 0;
  for (int number = 0; number < p.blocks; ++number) {
    const KeyWork work = find_key_work<kConfig>(p, number);
    if (number % (kSection * p.key_blocks) == 0) before = 0;
    EXPECT_GE(work.first_key, before) << number;
    before = work.first_key;
    EXPECT_EQ((work.batch * 5 + work.key_head) / kSection, number / (kSection * p.key_blocks));
  }
}

}  // namespace
}  // namespace volley::test
