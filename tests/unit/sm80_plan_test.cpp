// SPDX-License-Identifier: BSD-3-Clause
//
// The sm80 backend's plan, which needs neither a GPU nor CUDA: the choice of a kernel within what a
// device grants, what is copied before it can be read, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>

#include "backend.h"
#include "cuda/sm80/config.h"
#include "cuda/sm80_launch.h"
#include "offers.h"
#include "problem_builder.h"

namespace volley::cuda::v2 {
namespace {

using core::Plan;
using core::ProblemBuilder;
using core::Role;
using core::Status;

Status plan_on(const ProblemBuilder& builder, const std::string& device, Plan* plan) {
  VOLLEY_TRY(builder.make(&plan->problem));
  VOLLEY_TRY(core::find_device(device, &plan->device));
  return core::sm80_backend().plan(plan);
}

ProblemBuilder plain(int64_t d, int64_t dv) { return {VOLLEY_BF16, 2, 500, 700, 4, 2, d, dv}; }

TEST(Sm80Plan, EveryHeadDimHasAKernelInNinetyNineKilobytes) {
  for (int d = 1; d <= 256; ++d) {
    for (const bool extras : {false, true}) {
      ProblemBuilder builder = plain(d, std::max(1, d - 3));
      if (extras) builder.options.softcap = 20;
      Plan plan;
      const Status status = plan_on(builder, "l40s", &plan);
      ASSERT_TRUE(status.ok()) << status.message;
      EXPECT_EQ(plan.device.smem_per_block, 99 * 1024);
      EXPECT_LE(plan.config.smem, plan.device.smem_per_block) << plan.config.name;
      const Config config = forward_config(plan.config.row);
      EXPECT_GE(config.d, d);
      EXPECT_EQ(config.extras, extras);
      EXPECT_EQ(plan.config.threads, 32 * config.warps);
    }
  }
}

TEST(Sm80Plan, EveryRowIsChosenForSomeProblem) {
  for (int row = 0; row < kForwardRows; ++row) {
    const Config config = forward_config(row);
    EXPECT_EQ(choose_forward(config.element, config.d, config.extras, shared_bytes(config)), row);
    EXPECT_EQ(choose_forward(config.element, config.d, config.extras, shared_bytes(config) - 1),
              -1);
  }
}

TEST(Sm80Plan, EveryHeadDimHasABackwardInNinetyNineKilobytes) {
  for (int d = 1; d <= 256; ++d) {
    for (const bool extras : {false, true}) {
      ProblemBuilder builder = plain(d, std::max(1, d - 3));
      if (extras) builder.options.softcap = 20;
      Plan plan;
      const Status status = plan_on(builder.backward(), "l40s", &plan);
      ASSERT_TRUE(status.ok()) << status.message;
      EXPECT_LE(plan.config.smem, plan.device.smem_per_block) << plan.config.name;
      const Config config = backward_config(plan.config.row);
      EXPECT_GE(config.d, d);
      EXPECT_TRUE(config.extras);  // plain kernels need more
    }
  }
}

TEST(Sm80Plan, EveryBackwardRowIsChosenForSomeProblem) {
  for (int row = 0; row < kBackwardRows; ++row) {
    const Config config = backward_config(row);
    const int bytes = backward_shared_bytes(config);
    EXPECT_EQ(choose_backward(config.element, config.d, config.extras, bytes), row);
    const int smaller = choose_backward(config.element, config.d, config.extras, bytes - 1);
    if (config.extras) {
      EXPECT_EQ(smaller, -1);
    } else {  // the extras kernel of the same type and d serves, too
      const Config other = backward_config(smaller);
      EXPECT_TRUE(other.extras);
      EXPECT_EQ(other.element, config.element);
      EXPECT_EQ(other.d, config.d);
    }
  }
}

// Scores of an extras kernel come in other units.
TEST(Sm80Plan, APlainBackwardTakesTheKernelThatFits) {
  for (const int d : {64, 128, 256}) {
    Plan plan;
    ASSERT_TRUE(plan_on(plain(d, d).backward(), "h200", &plan).ok());
    EXPECT_FALSE(backward_config(plan.config.row).extras);
    EXPECT_EQ(make_backward(plan).params.scale_log2, extras_of(plan.problem).score_scale);
    ASSERT_TRUE(plan_on(plain(d, d).backward(), "a100", &plan).ok());
    EXPECT_TRUE(backward_config(plan.config.row).extras);
    EXPECT_EQ(make_backward(plan).params.scale_log2, 1.f);
  }
}

TEST(Sm80Plan, ABackwardKeepsDeltaAndSumsOfDq) {
  ProblemBuilder builder = plain(64, 64);
  Plan plan;
  ASSERT_TRUE(plan_on(builder.backward(), "h200", &plan).ok());
  constexpr unsigned kDelta = 4 * (2 * 4 * 500) + 128;          // both in multiples of 256 bytes
  EXPECT_EQ(plan.workspace, kDelta + 4u * (2 * 4 * 512 * 64));  // whole tiles of 128 rows
}

TEST(Sm80Plan, AFixedOrderOfDqNeedsNoSums) {
  for (const bool deterministic : {true, false}) {
    ProblemBuilder builder = plain(64, 64);
    (deterministic ? builder.options.deterministic : builder.options.batch_invariant) = 1;
    Plan plan;
    ASSERT_TRUE(plan_on(builder.backward(), "l40s", &plan).ok());
    EXPECT_EQ(plan.workspace, 4u * (2 * 4 * 500) + 128);  // delta
    EXPECT_NE(plan.config.name.find(", dq by queries"), std::string::npos) << plan.config.name;
    const BackwardLaunch launch = make_backward(plan);
    EXPECT_EQ(launch.queries.grid.blocks, 8 * 2 * 4);  // tiles of 64 queries, b, hq
    EXPECT_EQ(launch.dq_grid.blocks, 0);
    EXPECT_EQ(launch.dq_bytes, 0u);
  }
}

ProblemBuilder with_dbias(std::initializer_list<int64_t> shape) {
  ProblemBuilder builder = plain(64, 64);
  builder.backward();
  builder.set(Role::kBias, core::contiguous(VOLLEY_BF16, shape));
  builder.set(Role::kDbias, core::contiguous(VOLLEY_BF16, shape));
  return builder;
}

TEST(Sm80Plan, ADbiasThatIsASumIsMadeInTheWorkspace) {
  Plan plan;
  ASSERT_TRUE(plan_on(with_dbias({2, 4, 500, 700}), "h200", &plan).ok());
  const uint64_t delta = plan.workspace;
  EXPECT_EQ(make_backward(plan).dbias.bytes, 0u);
  ASSERT_TRUE(plan_on(with_dbias({1, 4, 500, 700}), "h200", &plan).ok());
  EXPECT_EQ(plan.workspace, delta + 4u * (4 * 500 * 700));
  EXPECT_EQ(make_backward(plan).dbias.bytes, 4u * (4 * 500 * 700));
}

TEST(Sm80Plan, ADbiasOfAllQueriesHasNoFixedOrder) {
  ProblemBuilder builder = with_dbias({2, 4, 1, 700});
  Plan plan;
  ASSERT_TRUE(plan_on(builder, "h200", &plan).ok());
  builder.options.deterministic = 1;
  EXPECT_EQ(plan_on(builder, "h200", &plan).reason, VOLLEY_REASON_DETERMINISTIC);
  builder.options.deterministic = 0;
  builder.options.batch_invariant = 1;
  EXPECT_EQ(plan_on(builder, "h200", &plan).reason, VOLLEY_REASON_BATCH_INVARIANT);
}

// Of 2 sequences, 4 heads and 8 tiles of 64 queries.
TEST(Sm80Plan, TilesThatShareDbiasAreOneCtasWhereTheOrderIsFixed) {
  const auto ctas_of = [](ProblemBuilder builder, bool fixed) {
    builder.options.deterministic = fixed ? 1 : 0;
    Plan plan;
    const Status status = plan_on(builder, "h200", &plan);
    EXPECT_TRUE(status.ok()) << status.message;
    return make_backward(plan).queries.grid.blocks;
  };
  EXPECT_EQ(ctas_of(with_dbias({2, 4, 500, 700}), true), 64);
  EXPECT_EQ(ctas_of(with_dbias({2, 4, 500, 1}), true), 64);
  EXPECT_EQ(ctas_of(with_dbias({1, 4, 500, 700}), true), 32);
  EXPECT_EQ(ctas_of(with_dbias({2, 1, 500, 700}), true), 16);
  EXPECT_EQ(ctas_of(with_dbias({1, 1, 500, 700}), true), 8);
  EXPECT_EQ(ctas_of(with_dbias({1, 1, 500, 700}), false), 64);
}

TEST(Sm80Plan, AnInputInFp64IsAReason) {
  for (const Role role : {Role::kLse, Role::kDlse}) {
    ProblemBuilder builder = plain(64, 64);
    builder.backward();
    builder.set(role, core::contiguous(VOLLEY_F64, {2, 4, 500}));
    Plan plan;
    EXPECT_EQ(plan_on(builder, "h200", &plan).reason, VOLLEY_REASON_DTYPE);
  }
}

TEST(Sm80Plan, TooLittleSharedMemoryIsAReason) {
  Plan plan;
  ASSERT_TRUE(plain(256, 256).make(&plan.problem).ok());
  ASSERT_TRUE(core::find_device("a100", &plan.device).ok());
  plan.device.smem_per_block = 48 * 1024;
  const Status status = core::sm80_backend().plan(&plan);
  EXPECT_EQ(status.code, VOLLEY_NOT_OFFERED);
  EXPECT_EQ(status.reason, VOLLEY_REASON_SHARED_MEMORY);
}

TEST(Sm80Plan, AnOlderGpuIsAReason) {
  Plan plan;
  ASSERT_TRUE(plain(64, 64).make(&plan.problem).ok());
  ASSERT_TRUE(core::find_device("a100", &plan.device).ok());
  plan.device.arch = 75;
  EXPECT_EQ(core::sm80_backend().plan(&plan).reason, VOLLEY_REASON_ARCH);
}

TEST(Sm80Plan, WhatCanBeReadIsNotCopied) {
  ProblemBuilder builder = plain(64, 64);
  Plan plan;
  ASSERT_TRUE(plan_on(builder, "h200", &plan).ok());
  EXPECT_EQ(plan.workspace, 0u);
  builder[Role::kK].stride[1] *= -1;  // any stride of whole vectors will do
  builder[Role::kV].stride[0] = 0;
  builder[Role::kO].alignment = 2;  // outputs are written as they are
  ASSERT_TRUE(plan_on(builder, "h200", &plan).ok());
  EXPECT_EQ(plan.workspace, 0u);
}

TEST(Sm80Plan, WhatCannotBeReadIsCopiedIntoTheWorkspace) {
  ProblemBuilder builder = plain(64, 60);
  builder[Role::kQ].alignment = 2;
  Plan plan;
  ASSERT_TRUE(plan_on(builder, "h200", &plan).ok());
  // q as it is, v with rows of 64; both in multiples of 256 bytes.
  EXPECT_EQ(plan.workspace, 2u * (2 * 500 * 4 * 64) + 2u * (2 * 700 * 2 * 64));
  EXPECT_NE(plan.config.name.find("copies q v"), std::string::npos) << plan.config.name;
}

TEST(Sm80Plan, AnF32DoutIsCopiedInQsType) {
  ProblemBuilder builder = plain(64, 64);
  builder.backward();
  Plan plan;
  ASSERT_TRUE(plan_on(builder, "h200", &plan).ok());
  EXPECT_EQ(plan.config.name.find("copies"), std::string::npos) << plan.config.name;
  const uint64_t without = plan.workspace;
  builder[Role::kO].dtype = builder[Role::kDout].dtype = VOLLEY_F32;
  ASSERT_TRUE(plan_on(builder, "h200", &plan).ok());
  EXPECT_EQ(plan.workspace - without, 2u * (2 * 500 * 4 * 64));
  EXPECT_NE(plan.config.name.find("copies dout"), std::string::npos) << plan.config.name;
}

TEST(Sm80Plan, MaxSmsBoundsTheGrid) {
  ProblemBuilder builder = plain(64, 64);
  Plan plan;
  ASSERT_TRUE(plan_on(builder, "h200", &plan).ok());
  EXPECT_EQ(plan.config.grid, 4 * 2 * 4);  // tiles of 128 queries, b, hq
  builder.options.max_sms = 3;
  ASSERT_TRUE(plan_on(builder, "h200", &plan).ok());
  EXPECT_EQ(plan.config.grid, 3);
}

TEST(Sm80Plan, MaxSmsBoundsTheSmallKernelsToo) {
  ProblemBuilder builder = plain(64, 60);  // v and dout are copied
  builder.options.max_sms = 3;
  Plan plan;
  ASSERT_TRUE(plan_on(builder.backward(), "h200", &plan).ok());
  const BackwardLaunch launch = make_backward(plan);
  EXPECT_EQ(launch.grid.blocks, 3);
  EXPECT_EQ(launch.delta_grid.blocks, 3);
  EXPECT_EQ(launch.dq_grid.blocks, 3);
  builder.options.deterministic = 1;
  builder.set(Role::kSink, core::contiguous(VOLLEY_F32, {4}));
  builder.set(Role::kDsink, core::contiguous(VOLLEY_F32, {4}));
  ASSERT_TRUE(plan_on(builder, "h200", &plan).ok());
  EXPECT_EQ(make_backward(plan).queries.grid.blocks, 3);
  EXPECT_EQ(make_backward(plan).dsink.grid.blocks, 3);
  ASSERT_EQ(launch.operands.packings().size(), 2u);
  for (const Packing& packing : launch.operands.packings()) EXPECT_EQ(packing.grid.blocks, 3);
}

TEST(Sm80Plan, TakesWhatHopperRefuses) {
  ProblemBuilder builder = plain(65, 65);
  Plan plan;
  ASSERT_TRUE(builder.make(&plan.problem).ok());
  core::Problem problem = plan.problem;
  ASSERT_TRUE(core::make_plan(problem, "h200", &plan).ok());
  EXPECT_EQ(plan.backend, VOLLEY_BACKEND_SM80);
  ASSERT_EQ(plan.passed_over.size(), 1u);
  EXPECT_EQ(plan.passed_over[0].backend, VOLLEY_BACKEND_SM90);
  EXPECT_NE(plan.passed_over[0].sentence.find("65"), std::string::npos);

  builder = plain(64, 64);
  ASSERT_TRUE(builder.make(&plan.problem).ok());
  problem = plan.problem;
  ASSERT_TRUE(core::make_plan(problem, "h200", &plan).ok());
  EXPECT_EQ(plan.backend, VOLLEY_BACKEND_SM90);
  ASSERT_TRUE(core::make_plan(problem, "a100", &plan).ok());
  EXPECT_EQ(plan.backend, VOLLEY_BACKEND_SM80);
}

}  // namespace
}  // namespace volley::cuda::v2
