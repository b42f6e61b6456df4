// SPDX-License-Identifier: BSD-3-Clause
//
// The emulator does what its instructions say: products, warps, arithmetic, CTAs. What a GPU is
// asked for, too: probes_test.cpp. That it also shows mistakes: races_test.cpp.
#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <vector>

#include "cuda/ptx/mma.cuh"
#include "emulator/launch.h"
#include "random.h"

namespace volley::test {
namespace {

using namespace cuda;  // NOLINT: all of this file is about it
using emulator::launch;

constexpr int kM = 64, kN = 16, kK = 48;  // a warp has 16 rows
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// c += a b: a is (kM, kK), b is (kK, kN). With kByRows b comes as (kN, kK).
template <Element kElement, bool kByRows>
__global__ void multiply(const Bits16* a, const Bits16* b, float* c) {
  auto* const shared = reinterpret_cast<Bits16*>(ptx::dynamic_shared());
  Bits16* const b_shared = shared + kM * kK;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, row = thread / 32 * 16;
  for (int i = 8 * thread; i < kM * kK; i += 8 * static_cast<int>(blockDim.x)) {
    ptx::copy_async(shared + i, a + i, 16);
  }
  for (int i = 8 * thread; i < kK * kN; i += 8 * static_cast<int>(blockDim.x)) {
    ptx::copy_async(b_shared + i, b + i, 16);
  }
  ptx::commit_copies();
  ptx::wait_copies<0>();
  ptx::sync_cta();
  float sum[2][4] = {};
#pragma unroll
  for (int k = 0; k < kK; k += 16) {
    u32 left[4], right[4];
    ptx::load_matrices(shared + (row + lane % 16) * kK + k + lane / 16 * 8, left);
    if constexpr (kByRows) {
      ptx::load_matrices(b_shared + (lane / 16 * 8 + lane % 8) * kK + k + lane / 8 % 2 * 8, right);
    } else {
      ptx::load_transposed(b_shared + (k + lane % 16) * kN + lane / 16 * 8, right);
    }
    ptx::mma<kElement>(sum[0], left, right[0], right[1]);
    ptx::mma<kElement>(sum[1], left, right[2], right[3]);
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    c[(row + lane / 4 + i / 2 % 2 * 8) * kN + i / 4 * 8 + lane % 4 * 2 + i % 2] +=
        sum[i / 4][i % 4];
  }
}

template <Element kElement, bool kByRows>
void check_product() {
  check::Random random(7);
  // Quarters: the sums are exact, so every element tells which others it is made of.
  const auto number = [&] { return static_cast<float>(random.integer(-40, 40)) / 4; };
  const auto rounded = [](float x) {
    return Bits16{static_cast<unsigned short>(ptx::pack<kElement>(x, 0.f))};
  };
  alignas(16) Bits16 a[kM * kK], b[kK * kN];
  std::vector<float> expected(kM * kN), c(kM * kN, 100.f), a_number(kM * kK), b_number(kK * kN);
  for (int i = 0; i < kM * kK; ++i) a[i] = rounded(a_number[i] = number());
  for (int k = 0; k < kK; ++k) {
    for (int n = 0; n < kN; ++n) {
      b[kByRows ? n * kK + k : k * kN + n] = rounded(b_number[k * kN + n] = number());
    }
  }
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      expected[m * kN + n] = 100;
      for (int k = 0; k < kK; ++k) {
        expected[m * kN + n] += a_number[m * kK + k] * b_number[k * kN + n];
      }
    }
  }
  launch(1, kM / 16 * 32, (kM + kN) * kK * 2, 1,
         [&] { multiply<kElement, kByRows>(a, b, c.data()); });
  EXPECT_EQ(c, expected);
}

TEST(Emulator, MultipliesBf16) {
  check_product<Element::kBf16, false>();
  check_product<Element::kBf16, true>();
}
TEST(Emulator, MultipliesFp16) {
  check_product<Element::kF16, false>();
  check_product<Element::kF16, true>();
}

// What `value` returns in each lane of a warp.
template <class Function>
std::vector<int> by_lane(Function value) {
  std::vector<int> results(32);
  launch(1, 32, 0, 1, [&] {
    const int lane = static_cast<int>(threadIdx.x);
    results[static_cast<size_t>(lane)] = static_cast<int>(value(lane));
  });
  return results;
}

template <class Function>
std::vector<int> table(Function value) {
  std::vector<int> results;
  for (int lane = 0; lane < 32; ++lane) results.push_back(value(lane));
  return results;
}

TEST(Emulator, WarpsShuffle) {
  EXPECT_EQ(by_lane([](int lane) { return ptx::shuffle_xor(10 * lane, 5); }),
            table([](int lane) { return 10 * (lane ^ 5); }));
}

TEST(Emulator, WarpsVote) {
  EXPECT_EQ(by_lane([](int lane) { return ptx::any(lane == 31); }), table([](int) { return 1; }));
  EXPECT_EQ(by_lane([](int) { return ptx::any(false); }), table([](int) { return 0; }));
  EXPECT_EQ(by_lane([](int lane) { return ptx::uniform(-lane); }), table([](int) { return 0; }));
}

TEST(Emulator, ArithmeticIsTheHardwares) {
  EXPECT_EQ(ptx::exp2(0.f), 1.f);
  EXPECT_EQ(ptx::exp2(-kInfinity), 0.f);
  EXPECT_EQ(ptx::exp2(3.f), 8.f);
  EXPECT_EQ(ptx::exp2(-126.f), 0x1p-126f);
  EXPECT_EQ(ptx::exp2(-127.f), 0.f);  // ftz
  EXPECT_EQ(ptx::log2(8.f), 3.f);
  EXPECT_EQ(ptx::log2(0x1p-127f), -kInfinity);
  EXPECT_EQ(ptx::reciprocal(4.f), 0.25f);
  EXPECT_EQ(ptx::reciprocal(0x1p-127f), kInfinity);
  EXPECT_EQ(ptx::reciprocal(-0x1p127f), -0.f);
  EXPECT_EQ(ptx::pack_bf16(1.f, -2.f), 0xc0003f80u);
}

TEST(Emulator, EveryThreadOfEveryCtaRunsOnce) {
  constexpr int kGrid = 13, kThreads = 96;
  std::vector<int> runs(kGrid * kThreads);
  float sum = 0;
  launch(kGrid, kThreads, 0, 1, [&] {
    EXPECT_EQ(gridDim.x, unsigned{kGrid});
    EXPECT_EQ(blockDim.x, unsigned{kThreads});
    ++runs[blockIdx.x * kThreads + threadIdx.x];
    ptx::add_atomically(&sum, 1.f);
  });
  EXPECT_EQ(runs, std::vector<int>(kGrid * kThreads, 1));
  EXPECT_EQ(sum, kGrid * kThreads);
}

}  // namespace
}  // namespace volley::test
