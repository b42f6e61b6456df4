// SPDX-License-Identifier: BSD-3-Clause
//
// Inputs of the probes, and what their outputs must be.
#include "mma_probes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <type_traits>

#include "dtype.h"
#include "random.h"

namespace volley::test {
namespace {

using cuda::Element;
using cuda::u32;

// All bits set is a NaN in every format, and -1 in whole numbers.
template <class Probe>
void poison(Probe* probe) {
  static_assert(std::is_trivially_copyable_v<Probe>);
  std::memset(static_cast<void*>(probe), 0xff, sizeof *probe);
}

u32 pair(u32 low, u32 high) { return low | high << 16; }

struct Matrices {
  Matrices() {
    check::Random random(7);
    const auto draw = [&](auto& matrix) {
      for (auto& row : matrix) {
        for (float& number : row) number = static_cast<float>(random.integer(-8, 8));
      }
    };
    draw(a);
    draw(b);
    draw(c);
  }

  float a[16][16], b[16][8], c[16][8];
};

// Where element i of a lane's fragment is, by the figures of mma.m16n8k16 in the PTX ISA.
struct Lane {
  int group, in_group;
  explicit Lane(int lane) : group(lane / 4), in_group(lane % 4) {}

  int a_row(int i) const { return i < 2 || (4 <= i && i < 6) ? group : group + 8; }
  int a_col(int i) const { return in_group * 2 + (i & 1) + (i < 4 ? 0 : 8); }
  int b_row(int i) const { return in_group * 2 + (i & 1) + (i < 2 ? 0 : 8); }
  int b_col() const { return group; }
  int c_row(int i) const { return i < 2 ? group : group + 8; }
  int c_col(int i) const { return in_group * 2 + (i & 1); }
};

}  // namespace

LoadedMatrices::LoadedMatrices() {
  poison(this);
  for (int i = 0; i < 32; ++i) {
    for (int col = 0; col < 8; ++col) row[i][col] = static_cast<unsigned short>(1000 + 8 * i + col);
  }
}

void LoadedMatrices::check() const {
  for (int lane = 0; lane < 32; ++lane) {
    const int r = lane / 4, c = 2 * (lane % 4);
    for (int m = 0; m < 4; ++m) {
      ASSERT_EQ(plain[lane][m], pair(row[8 * m + r][c], row[8 * m + r][c + 1]))
          << "lane " << lane << ", matrix " << m;
      ASSERT_EQ(transposed[lane][m], pair(row[8 * m + c][r], row[8 * m + c + 1][r]))
          << "lane " << lane << ", matrix " << m;
    }
  }
}

template <Element kElement>
Product<kElement>::Product() {
  poison(this);
  const auto bits = [](float x) -> u32 {
    return kElement == Element::kBf16 ? core::float_to_bf16(x) : core::float_to_f16(x);
  };
  const Matrices from;
  for (int lane = 0; lane < 32; ++lane) {
    const Lane at(lane);
    for (int i = 0; i < 8; i += 2) {
      a[lane][i / 2] = pair(bits(from.a[at.a_row(i)][at.a_col(i)]),
                            bits(from.a[at.a_row(i + 1)][at.a_col(i + 1)]));
    }
    for (int i = 0; i < 4; i += 2) {
      b[lane][i / 2] =
          pair(bits(from.b[at.b_row(i)][at.b_col()]), bits(from.b[at.b_row(i + 1)][at.b_col()]));
    }
    for (int i = 0; i < 4; ++i) c[lane][i] = from.c[at.c_row(i)][at.c_col(i)];
  }
}

template <Element kElement>
void Product<kElement>::check() const {
  const Matrices from;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int m = Lane(lane).c_row(i), n = Lane(lane).c_col(i);
      float expected = from.c[m][n];
      for (int k = 0; k < 16; ++k) expected += from.a[m][k] * from.b[k][n];
      ASSERT_EQ(sum[lane][i], expected) << "row " << m << ", column " << n;
    }
  }
}

template struct Product<Element::kBf16>;
template struct Product<Element::kF16>;

AsyncCopies::AsyncCopies() {
  poison(this);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) vectors[lane][i] = static_cast<float>(1 + 4 * lane + i);
    numbers[lane] = static_cast<float>(1000 + lane);
  }
}

void AsyncCopies::check() const {
  for (int lane = 0; lane < 32; ++lane) {
    const int from = 31 - lane;
    const bool all = from % 2 == 0;
    for (int i = 0; i < 4; ++i) {
      ASSERT_EQ(copied_vectors[lane][i], all ? vectors[from][i] : 0) << "of lane " << from;
    }
    ASSERT_EQ(copied_numbers[lane], all ? numbers[from] : 0) << "of lane " << from;
  }
}

PairedWarps::PairedWarps() { poison(this); }

void PairedWarps::check() const {
  for (int thread = 0; thread < kThreads; ++thread) ASSERT_EQ(partner[thread], thread ^ 32);
}

AtomicSums::AtomicSums() : sum{100, 100} {}

void AtomicSums::check() const {
  EXPECT_EQ(sum[0], 100 + 240);  // 0 + 2 + ... + 30
  EXPECT_EQ(sum[1], 100 + 256);  // 1 + 3 + ... + 31
}

WarpWords::WarpWords() { poison(this); }

void WarpWords::check() const {
  for (int lane = 0; lane < 32; ++lane) {
    ASSERT_EQ(third_next[lane], (lane + 3) % 32);
    ASSERT_EQ(shuffled[lane], static_cast<float>(lane ^ 16) + 0.5f);
    ASSERT_EQ(last_below_seven[lane], 6);
    ASSERT_EQ(none_is_minus_one[lane], 1);
    ASSERT_EQ(sum_of_lanes[lane], lane * (lane + 1) / 2);
    ASSERT_EQ(sum_of_large[lane], lane == 0 ? 1 << 29 : 1 << 30) << "the sum stops at 2^30";
  }
}

// Ties, which go to even; the largest and the smallest number of fp16; what is too large for fp16
// alone; an infinity and a NaN.
Conversions::Conversions() {
  poison(this);
  low[0] = 1 + 0x1p-8f, high[0] = 1 + 0x3p-8f;
  low[1] = 65504, high[1] = 0x1p-24f;
  low[2] = 65520, high[2] = 1 + 0x1p-11f;
  low[3] = -INFINITY, high[3] = NAN;
}

void Conversions::check() const {
  constexpr u32 kBf16[] = {0x3f823f80, 0x33804780, 0x3f804780, 0x7fffff80};
  constexpr u32 kF16[] = {0x3c0c3c04, 0x00017bff, 0x3c007c00, 0x7ffffc00};
  constexpr u32 kBf16Mark[] = {0, 0, 0, 0x7fff7fff};
  constexpr u32 kF16Mark[] = {0, 0, 0x00007fff, 0x7fff7fff};
  constexpr float kFromBf16[] = {1 + 0x1p-6f, 0x1p-24f, 1};
  constexpr float kFromF16[] = {1 + 0x3p-8f, 0x1p-24f, 1};
  for (int i = 0; i < kPairs; ++i) {
    ASSERT_EQ(bf16[i], kBf16[i]) << "pair " << i;
    ASSERT_EQ(f16[i], kF16[i]) << "pair " << i;
    ASSERT_EQ(bf16_mark[i], kBf16Mark[i]) << "pair " << i;
    ASSERT_EQ(f16_mark[i], kF16Mark[i]) << "pair " << i;
    if (i == kPairs - 1) continue;  // a NaN, like the outputs' poison
    ASSERT_EQ(from_bf16[i], kFromBf16[i]) << "pair " << i;
    ASSERT_EQ(from_f16[i], kFromF16[i]) << "pair " << i;
  }
}

}  // namespace volley::test
