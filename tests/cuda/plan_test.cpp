// SPDX-License-Identifier: BSD-3-Clause
//
// The sm90 backend's plan, which needs neither a GPU nor CUDA: the choice of a row, what TMA cannot
// take, and the schedule.
#include <gtest/gtest.h>

#include "backend.h"
#include "cuda/config.h"
#include "cuda/schedule.h"
#include "unit/problem_builder.h"

namespace volley::cuda {
namespace {

using core::Plan;
using core::ProblemBuilder;
using core::Role;
using core::Status;

Status plan_on(const ProblemBuilder& builder, const std::string& device, Plan* plan) {
  VOLLEY_TRY(builder.make(&plan->problem));
  VOLLEY_TRY(core::find_device(device, &plan->device));
  return core::sm90_backend().plan(plan);
}

ProblemBuilder plain(int64_t d, bool causal) {
  ProblemBuilder builder(VOLLEY_BF16, 2, 500, 700, 4, 2, d, d);
  builder.options.causal = causal;
  return builder;
}

TEST(Sm90Plan, EveryRowIsChosenForItsProblem) {
  for (int row = 0; row < kFwdRows; ++row) {
    const FwdConfig& config = kFwdConfigs[row];
    Plan plan;
    const Status status = plan_on(plain(config.d, config.mask == MaskKind::kCausal), "h200", &plan);
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(plan.config.row, row);
    EXPECT_EQ(plan.config.smem, shared_bytes(config));
    EXPECT_EQ(plan.workspace, 0u);
  }
}

TEST(Sm90Plan, LessSharedMemoryThanAnyRowNeedsIsAReason) {
  Plan plan;
  ASSERT_TRUE(plan_on(plain(128, false), "h200", &plan).ok());
  plan.device.smem_per_block = 100 * 1024;
  const Status status = core::sm90_backend().plan(&plan);
  EXPECT_EQ(status.code, VOLLEY_NOT_OFFERED);
  EXPECT_EQ(status.reason, VOLLEY_REASON_SHARED_MEMORY);
}

struct Refusal {
  const char* name;
  void (*bend)(ProblemBuilder&);
  int32_t reason;
  const char* words;
};

class Sm90Refuses : public testing::TestWithParam<Refusal> {};

TEST_P(Sm90Refuses, WithTheValueFound) {
  ProblemBuilder builder = plain(64, false);
  GetParam().bend(builder);
  Plan plan;
  const Status status = plan_on(builder, "h200", &plan);
  EXPECT_EQ(status.code, VOLLEY_NOT_OFFERED);
  EXPECT_EQ(status.reason, GetParam().reason);
  EXPECT_NE(status.message.find(GetParam().words), std::string::npos) << status.message;
}

const Refusal kRefusals[] = {
    {"RowStride", [](ProblemBuilder& b) { b[Role::kK].stride[1] += 1; }, VOLLEY_REASON_STRIDE,
     "row stride of k is 258 bytes"},
    {"NegativeStride", [](ProblemBuilder& b) { b[Role::kV].stride[2] = -b[Role::kV].stride[2]; },
     VOLLEY_REASON_STRIDE, "head stride of v is -128 bytes"},
    {"HugeStride", [](ProblemBuilder& b) { b[Role::kQ].stride[0] = int64_t{1} << 40; },
     VOLLEY_REASON_STRIDE, "batch stride of q"},
    {"Alignment", [](ProblemBuilder& b) { b[Role::kO].alignment = 8; }, VOLLEY_REASON_ALIGNMENT,
     "o is aligned to 8 bytes"},
    {"Scale", [](ProblemBuilder& b) { b.options.scale = 1e300; }, VOLLEY_REASON_SCALE, "1e+300"},
    {"TinyScale", [](ProblemBuilder& b) { b.options.scale = 1e-300; }, VOLLEY_REASON_SCALE,
     "1e-300"},
    {"HeadDim", [](ProblemBuilder& b) { b = ProblemBuilder(VOLLEY_BF16, 1, 8, 8, 1, 1, 80, 80); },
     VOLLEY_REASON_HEAD_DIM, "80"},
    {"Rows",
     [](ProblemBuilder& b) {
       b = ProblemBuilder(VOLLEY_BF16, 1, 8, (int64_t{1} << 30) + 1, 1, 1, 64, 64);
     },
     VOLLEY_REASON_SIZE, "1073741825"},
    {"Tiles",
     [](ProblemBuilder& b) {
       b = ProblemBuilder(VOLLEY_BF16, (int64_t{1} << 30) + 1, 1, 1, 1, 1, 64, 64);
     },
     VOLLEY_REASON_SIZE, "tiles"},
};

INSTANTIATE_TEST_SUITE_P(Each, Sm90Refuses, testing::ValuesIn(kRefusals),
                         [](const auto& refusal) { return std::string(refusal.param.name); });

TEST(Sm90Plan, AnotherArchitectureIsAReason) {
  Plan plan;
  const Status status = plan_on(plain(64, false), "a100", &plan);
  EXPECT_EQ(status.reason, VOLLEY_REASON_ARCH);
  EXPECT_NE(status.message.find("8.0"), std::string::npos) << status.message;
}

TEST(Sm90Plan, MaxSmsBoundsTheGrid) {
  for (const int32_t max_sms : {1, 7, 132, 1000}) {
    ProblemBuilder builder(VOLLEY_BF16, 8, 4096, 4096, 16, 16, 128, 128);
    builder.options.max_sms = max_sms;
    Plan plan;
    ASSERT_TRUE(plan_on(builder, "h200", &plan).ok());
    EXPECT_EQ(plan.config.grid, std::min(max_sms, 132));
  }
}

TEST(Schedule, PairsAreForCausalWithMoreTilesThanSms) {
  FwdConfig config = kFwdConfigs[kBf16D128Causal];
  const Schedule few = make_schedule(config, 1, 4, 4 * config.block_m, 1024, 132);
  EXPECT_FALSE(few.pair_tiles);
  EXPECT_EQ(few.items, 16);
  EXPECT_EQ(few.grid, 16);
  const Schedule many = make_schedule(config, 2, 16, 7 * config.block_m - 5, 1024, 132);
  EXPECT_TRUE(many.pair_tiles);
  EXPECT_EQ(many.q_tiles, 7);
  EXPECT_EQ(many.items, 2 * 16 * 4);
  config.mask = MaskKind::kFull;
  EXPECT_FALSE(make_schedule(config, 2, 16, 7 * config.block_m, 1024, 132).pair_tiles);
}

TEST(Schedule, NothingToDoNeedsNoCta) {
  EXPECT_EQ(make_schedule(kFwdConfigs[kBf16D64Full], 0, 4, 128, 128, 132).grid, 0);
  EXPECT_EQ(make_schedule(kFwdConfigs[kBf16D64Full], 4, 4, 0, 128, 132).grid, 0);
}

}  // namespace
}  // namespace volley::cuda
