// SPDX-License-Identifier: BSD-3-Clause
//
// Tensor maps that are made once and moved: a moved map has the bits of one encoded for its
// address, and where moving is not known to be right the map is encoded.
#include "cuda/tensor_map.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "device_memory.h"
#include "random.h"

namespace volley::cuda {
namespace {

class TensorMaps : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!check::gpu_available(&why)) GTEST_SKIP() << why;
    ASSERT_EQ(cudaFree(nullptr), cudaSuccess);  // as a plan has it: with a current context
  }
};

TensorGeometry geometry(check::Random* random) {
  const i64 d = 64 * random->integer(1, 4);
  const i64 heads = random->integer(1, 9);
  const i64 rows = random->integer(1, 5000);
  const Strides stride = {.batch = rows * heads * d, .row = heads * d, .head = d};
  return {.name = "k",
          .data = nullptr,
          .element = random->integer(0, 1) == 0 ? Element::kBf16 : Element::kF16,
          .batch = random->integer(1, 5),
          .rows = rows,
          .heads = heads,
          .d = d,
          .stride = stride,
          .box_rows = static_cast<int>(16 * random->integer(1, 8))};
}

TEST_F(TensorMaps, MovedIsAsEncoded) {
  check::Random random(1);
  for (int i = 0; i < 200; ++i) {
    const TensorGeometry tensor = geometry(&random);
    const OperandMap operand = make_operand_map(tensor);
    ASSERT_TRUE(operand.movable) << "a driver whose maps cannot be moved: runs will be slower";
    OperandMap fixed = operand;
    fixed.movable = false;
    const auto address = static_cast<uintptr_t>(random.integer(1, (i64{1} << 43) - 1)) * 16;
    const auto* data = reinterpret_cast<const void*>(address);
    TensorMap moved{}, encoded{};
    ASSERT_TRUE(map_at(operand, data, &moved).ok());
    const core::Status status = map_at(fixed, data, &encoded);
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_TRUE(std::ranges::equal(moved.words, encoded.words)) << std::hex << address;
  }
}

TEST_F(TensorMaps, WhatTheDriverRefusesIsRefusedInEachCall) {
  check::Random random(2);
  TensorGeometry tensor = geometry(&random);
  tensor.rows = 2;
  tensor.stride.row = 4;  // 8 bytes
  const OperandMap operand = make_operand_map(tensor);
  EXPECT_FALSE(operand.movable);
  TensorMap map{};
  EXPECT_EQ(map_at(operand, nullptr, &map).reason, VOLLEY_REASON_STRIDE);
}

}  // namespace
}  // namespace volley::cuda
