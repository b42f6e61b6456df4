// SPDX-License-Identifier: BSD-3-Clause
//
// The sm90 backend's plan, which needs neither a GPU nor CUDA: the choice of a row, what TMA cannot
// take, and the schedule.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "backend.h"
#include "cuda/config_table.h"
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
    const FwdConfig config = fwd_config(row);
    ProblemBuilder builder(config.element == Element::kBf16 ? VOLLEY_BF16 : VOLLEY_F16, 2, 500,
                           std::max(config.from_keys, 700), 4, 2, config.d, config.dv);
    builder.options.causal = config.mask == MaskKind::kCausal;
    if (config.mask == MaskKind::kGeneral) builder.options.window_left = 100;
    Plan plan;
    ASSERT_TRUE(builder.make(&plan.problem).ok());
    ASSERT_TRUE(core::find_device("h200", &plan.device).ok());
    // Of those that fit, the last is preferred; so each is where no more is granted than it needs.
    plan.device.smem_per_block = shared_bytes(config);
    const Status status = core::sm90_backend().plan(&plan);
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(plan.config.row, row);
    EXPECT_EQ(plan.config.smem, shared_bytes(config));
    EXPECT_EQ(plan.workspace, 0u);
  }
}

TEST(Sm90Plan, OtherHeadDimsRunInTheNext) {
  for (const auto [d, dv, row_d, row_dv] :
       {std::array{8, 8, 64, 64}, std::array{72, 64, 96, 96}, std::array{104, 128, 128, 128},
        std::array{136, 128, 192, 128}, std::array{136, 136, 192, 192},
        std::array{64, 256, 256, 256}}) {
    Plan plan;
    const Status status =
        plan_on(ProblemBuilder(VOLLEY_F16, 2, 500, 700, 4, 2, d, dv), "h200", &plan);
    ASSERT_TRUE(status.ok()) << status.message;
    const FwdConfig config = fwd_config(plan.config.row);
    EXPECT_EQ(config.d, row_d);
    EXPECT_EQ(config.dv, row_dv);
  }
}

// The stages, then the keys a block, then the kernel itself: smaller ones where less is granted.
TEST(Sm90Plan, LessSharedMemoryGetsASmallerKernel) {
  struct Step {
    int d;
    bool causal;
    int kilobytes;
    const char* name;  // of the config; null: none fits
  };
  for (const Step& step :
       {Step{128, false, 227, "bf16 d128 full 128x128, 2 stages"},
        Step{128, true, 227, "bf16 d128 causal 128x128, 3 stages"},
        Step{128, true, 200, "bf16 d128 general 128x128, 2 stages"},
        Step{128, true, 99, "bf16 d128 general 128x64, 2 stages"}, Step{128, true, 64, nullptr},
        Step{64, false, 163, "bf16 d64 full 128x128, 4 stages"},
        Step{64, false, 99, "bf16 d64 general 128x128, 2 stages"},
        Step{256, false, 200, "bf16 d256 general 128x64, 2 stages"},
        Step{256, false, 99, nullptr}}) {
    Plan plan;
    ASSERT_TRUE(plan_on(plain(step.d, step.causal), "h200", &plan).ok());
    plan.device.smem_per_block = step.kilobytes * 1024;
    const Status status = core::sm90_backend().plan(&plan);
    if (step.name == nullptr) {
      EXPECT_EQ(status.code, VOLLEY_NOT_OFFERED);
      EXPECT_EQ(status.reason, VOLLEY_REASON_SHARED_MEMORY);
      continue;
    }
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(plan.config.name, step.name);
    EXPECT_LE(plan.config.smem, plan.device.smem_per_block);
  }
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
    {"TinySoftcapSlope",
     [](ProblemBuilder& b) { b.options.softcap = 1e30, b.options.scale = 1e-20; },
     VOLLEY_REASON_SOFTCAP, "1e+30"},
    {"WideSink", [](ProblemBuilder& b) { b.set(Role::kSink, core::contiguous(VOLLEY_F64, {4})); },
     VOLLEY_REASON_DTYPE, "sink is fp64"},
    {"HeadDim", [](ProblemBuilder& b) { b = ProblemBuilder(VOLLEY_BF16, 1, 8, 8, 1, 1, 84, 84); },
     VOLLEY_REASON_HEAD_DIM, "84"},
    {"Rows",
     [](ProblemBuilder& b) {
       b = ProblemBuilder(VOLLEY_BF16, 1, 8, (int64_t{1} << 28) + 1, 1, 1, 64, 64);
     },
     VOLLEY_REASON_SIZE, "268435457"},
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

// Without max_seqlen_q each of them could be as long as all together.
TEST(Sm90Plan, ManyPackedSequencesShareTheirRows) {
  ProblemBuilder builder(VOLLEY_BF16, 1, 1, 1, 1, 1, 64, 64);
  constexpr int64_t kRows = 1 << 20, kHeads = 64, kSequences = 4096;
  for (const Role role : {Role::kQ, Role::kK, Role::kV, Role::kO}) {
    builder.set(role, core::contiguous(VOLLEY_BF16, {kRows, kHeads, 64}));
  }
  builder.set(Role::kLse, core::contiguous(VOLLEY_F32, {kHeads, kRows}));
  for (const Role role : {Role::kCuSeqlensQ, Role::kCuSeqlensK}) {
    builder.set(role, core::contiguous(VOLLEY_I32, {kSequences + 1}));
  }
  Plan plan;
  const Status status = plan_on(builder, "h200", &plan);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(plan.config.grid, 132);
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

// The blocks of keys that each CTA of a causal schedule computes, by the rule of common/walk.cuh.
std::vector<int64_t> blocks_of_ctas(const FwdConfig& config, const Schedule& s, int64_t heads,
                                    int64_t sk) {
  std::vector<int64_t> blocks(static_cast<size_t>(s.grid));
  for (int64_t tile = 0; tile < s.tiles; ++tile) {
    const int64_t section = tile / (s.q_tiles * s.section);
    const int64_t width = std::min<int64_t>(s.section, heads - section * s.section);
    const int64_t rank = (tile - section * s.q_tiles * s.section) / width;
    const int64_t keys = std::min<int64_t>((s.q_tiles - rank) * config.block_m, sk);
    const int64_t place = tile % s.grid;
    const bool back = tile / s.grid % 2 != 0;
    blocks[static_cast<size_t>(back ? s.grid - 1 - place : place)] +=
        (keys + config.block_n - 1) / config.block_n;
  }
  return blocks;
}

TEST(Schedule, CausalTilesAreDealtOutEvenly) {
  for (const int d : {64, 128, 256}) {
    for (const int64_t s : {512, 1024, 2048, 4096, 8192, 16384}) {
      const int64_t b = 16384 / s, heads = 2048 / d;
      const FwdConfig config =
          fwd_config(choose(Element::kBf16, {d, d}, MaskKind::kCausal, s, 232448));
      const Schedule schedule = make_schedule(config, b, heads, s, s, 0, 132);
      const std::vector<int64_t> blocks = blocks_of_ctas(config, schedule, b * heads, s);
      const auto total = std::accumulate(blocks.begin(), blocks.end(), int64_t{0});
      const auto most = *std::max_element(blocks.begin(), blocks.end());
      EXPECT_LE(static_cast<double>(most) * 132, 1.12 * static_cast<double>(total))
          << "d " << d << ", s " << s << ", section " << schedule.section;
    }
  }
}

TEST(Schedule, FullTilesAreNumbered) {
  const FwdConfig config =
      fwd_config(choose(Element::kF16, {128, 128}, MaskKind::kFull, 1, 232448));
  const Schedule schedule = make_schedule(config, 2, 16, 7 * config.block_m - 5, 1024, 0, 132);
  EXPECT_EQ(schedule.q_tiles, 7);
  EXPECT_EQ(schedule.tiles, 2 * 16 * 7);
  EXPECT_EQ(schedule.grid, 132);
}

TEST(Schedule, NothingToDoNeedsNoCta) {
  for (int row = 0; row < kFwdRows; ++row) {
    EXPECT_EQ(make_schedule(fwd_config(row), 0, 4, 128, 128, 0, 132).grid, 0);
    EXPECT_EQ(make_schedule(fwd_config(row), 4, 4, 0, 128, 0, 132).grid, 0);
  }
}

}  // namespace
}  // namespace volley::cuda
