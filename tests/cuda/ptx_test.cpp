// SPDX-License-Identifier: BSD-3-Clause
//
// The wrappers of ptx/core.cuh, ptx/async.cuh and ptx/mma.cuh on the device, and the tensor maps of
// cuda/tensor_map.h: which element TMA puts where, what it does at the edges.
#include <gtest/gtest.h>

#include <cmath>

#include "cuda/tensor_map.h"
#include "device_memory.h"
#include "mma_probes.h"
#include "ptx_probes.h"

namespace volley::test {
namespace {

class Ptx : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!check::gpu_available(&why)) GTEST_SKIP() << why;
  }

  Probes probe() {
    Probes probes{};
    std::string error;
    EXPECT_TRUE(run_probes(&probes, &error)) << error;
    return probes;
  }

  template <class Probe>
  void check() {
    Probe probe;
    std::string error;
    ASSERT_TRUE(run_probe(&probe, &error)) << error;
    probe.check();
  }
};

TEST_F(Ptx, ArithmeticIsExactWhereTheKernelsCountOnIt) {
  const Arithmetic x = probe().arithmetic;
  EXPECT_EQ(x.exp2_zero, 1.f);  // an unmoved maximum rescales by exactly 1
  EXPECT_EQ(x.exp2_minus_infinity, 0.f);
  EXPECT_EQ(x.exp2_three, 8.f);
  EXPECT_EQ(x.log2_eight, 3.f);
  EXPECT_EQ(x.reciprocal_four, 0.25f);
  EXPECT_EQ(x.packed, 0xc0003f80u);
}

TEST_F(Ptx, WarpsAgree) {
  const Warp x = probe().warp;
  EXPECT_EQ(x.uniform, 7);
  EXPECT_EQ(x.any_of_one, 1);
  EXPECT_EQ(x.any_of_none, 0);
  for (int lane = 0; lane < 32; ++lane) EXPECT_EQ(x.shuffled[lane], lane ^ 1);
  EXPECT_EQ(x.elected, 1);
  EXPECT_EQ(x.seen_by_second, 42);
  EXPECT_EQ(x.after_reallocation, 1);
}

TEST_F(Ptx, BarriersCountArrivals) {
  const Phases x = probe().phases;
  EXPECT_EQ(x.fresh_parity_1, 1);
  EXPECT_EQ(x.fresh_parity_0, 0);
  EXPECT_EQ(x.first_arrival_of_two, 0);
  EXPECT_EQ(x.second_arrival_of_two, 1);
}

TEST_F(Ptx, LoadsMatrices) { check<LoadedMatrices>(); }
TEST_F(Ptx, MultipliesBf16) { check<Product<cuda::Element::kBf16>>(); }
TEST_F(Ptx, MultipliesFp16) { check<Product<cuda::Element::kF16>>(); }
TEST_F(Ptx, CopiesAsynchronously) { check<AsyncCopies>(); }
TEST_F(Ptx, SynchronizesPairsOfWarps) { check<PairedWarps>(); }
TEST_F(Ptx, AddsAtomically) { check<AtomicSums>(); }
TEST_F(Ptx, ShufflesAndVotes) { check<WarpWords>(); }
TEST_F(Ptx, Converts) { check<Conversions>(); }

// A (2, 100, 3, 128) tensor whose element says where it is, modulo 2^16.
struct Numbered {
  static constexpr int kBatch = 2, kRows = 100, kHeads = 3, kD = 128, kTileRows = 64;

  static uint16_t at(int batch, int row, int head, int col) {
    return static_cast<uint16_t>(((batch * kRows + row) * kHeads + head) * kD + col + 1);
  }

  static cuda::TensorGeometry geometry() {
    std::vector<uint16_t> contents;
    for (int i = 0; i < kBatch * kRows * kHeads * kD; ++i) {
      contents.push_back(static_cast<uint16_t>(i + 1));
    }
    return {.name = "k",
            .data = upload(contents),
            .element = cuda::Element::kBf16,
            .batch = kBatch,
            .rows = kRows,
            .heads = kHeads,
            .d = kD,
            .stride = {kRows * kHeads * kD, kHeads * kD, kD},
            .box_rows = kTileRows};
  }

  // Checks a tile by the definition of the swizzle.
  template <class Expected>
  static void check(const cuda::TensorGeometry& geometry, int row, int head, int batch,
                    Expected expected) {
    cuda::TensorMap map;
    const core::Status status = cuda::encode_tensor_map(geometry, &map);
    ASSERT_TRUE(status.ok()) << status.message;
    std::vector<uint16_t> tile;
    std::string error;
    ASSERT_TRUE(load_tile(map, row, head, batch, kTileRows * kD, &tile, &error)) << error;
    for (int r = 0; r < kTileRows; ++r) {
      for (int c = 0; c < kD; ++c) {
        const int group = (c % 64 / 8) ^ (r % 8);
        const int place = c / 64 * kTileRows * 64 + r * 64 + group * 8 + c % 8;
        ASSERT_EQ(tile[place], expected(r, c)) << "row " << r << ", column " << c;
      }
    }
  }
};

TEST_F(Ptx, TilesArriveSwizzled) {
  Numbered::check(Numbered::geometry(), 7, 2, 1,
                  [](int r, int c) { return Numbered::at(1, 7 + r, 2, c); });
}

TEST_F(Ptx, RowsPastTheEndAreZero) {
  Numbered::check(Numbered::geometry(), 64, 1, 0, [](int r, int c) {
    return 64 + r < Numbered::kRows ? Numbered::at(0, 64 + r, 1, c) : uint16_t{0};
  });
}

TEST_F(Ptx, StrideZeroBroadcasts) {
  cuda::TensorGeometry geometry = Numbered::geometry();
  geometry.stride.head = 0;
  Numbered::check(geometry, 0, 2, 1, [](int r, int c) { return Numbered::at(1, r, 0, c); });
  geometry = Numbered::geometry();
  geometry.stride.batch = 0;
  Numbered::check(geometry, 0, 2, 1, [](int r, int c) { return Numbered::at(0, r, 2, c); });
  geometry = Numbered::geometry();
  geometry.stride.row = 0;
  Numbered::check(geometry, 3, 2, 1, [](int, int c) { return Numbered::at(1, 0, 2, c); });
}

TEST_F(Ptx, ARefusedMapIsOneSentence) {
  cuda::TensorGeometry geometry = Numbered::geometry();
  geometry.stride.row = 4;  // 8 bytes
  cuda::TensorMap map;
  const core::Status status = cuda::encode_tensor_map(geometry, &map);
  EXPECT_EQ(status.code, VOLLEY_DEVICE_ERROR);
  EXPECT_NE(status.message.find("strides (38400, 4, 128, 1)"), std::string::npos) << status.message;
}

}  // namespace
}  // namespace volley::test
