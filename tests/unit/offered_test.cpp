// SPDX-License-Identifier: BSD-3-Clause
//
// What the Hopper backend takes and refuses, asked of the plan for an H200 that is not here: the
// same cases and the same judge as on the GPU, so that a wrong refusal shows on any machine.
#include "offered.h"

#include <gtest/gtest.h>

#include <cstring>

#include "edge_cases.h"
#include "runner.h"

namespace volley::check {
namespace {

// The addresses stay the host's: only their alignment is looked at.
Answer plan_for_h200(const Instance& instance) {
  volley_problem problem = instance.problem();
  std::array<volley_tensor, core::kRoleCount> tensors;
  for (const core::RoleInfo& role : core::kRoles) {
    if (!instance[role.role].present()) continue;
    volley_tensor& tensor = tensors[static_cast<size_t>(role.role)];
    tensor = *instance[role.role].view();
    tensor.device_type = VOLLEY_DEVICE_CUDA;
    const volley_tensor* pointer = &tensor;
    std::memcpy(reinterpret_cast<char*>(&problem) + role.problem_offset, &pointer, sizeof pointer);
  }
  problem.backend = VOLLEY_BACKEND_SM90;
  volley_plan* plan = nullptr;
  volley_error error{};
  volley_plan_create(&problem, "h200", &plan, &error);
  volley_plan_destroy(plan);
  return {error.code, error.reason, error.message, {}};
}

int count_offered(const std::vector<Case>& cases) {
  int offered = 0;
  for (const Case& c : cases) {
    const Instance instance = build(c);
    const Verdict verdict = judge_answer(instance, VOLLEY_BACKEND_SM90, plan_for_h200(instance));
    EXPECT_TRUE(verdict.ok()) << describe(c) << ": " << verdict.sentence;
    offered += verdict.result == Result::kPassed;
  }
  return offered;
}

TEST(Offered, EdgeCasesOnHopper) {
  EXPECT_GT(count_offered(edge_cases(VOLLEY_BF16)), 60);
  EXPECT_GT(count_offered(edge_cases(VOLLEY_F16)), 60);
  EXPECT_EQ(count_offered(edge_cases(VOLLEY_F32)), 0);
}

TEST(Offered, MaskCasesOnHopper) { EXPECT_GT(count_offered(mask_cases(VOLLEY_BF16)), 15); }

TEST(Offered, RandomCasesOnHopper) {
  std::vector<Case> within;
  std::vector<Case> beyond;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    within.push_back(random_case(scope_of(VOLLEY_BACKEND_SM90), seed));
    beyond.push_back(random_case(scope_of(VOLLEY_BACKEND_REFERENCE), seed));
  }
  EXPECT_EQ(count_offered(within), 300);
  EXPECT_LT(count_offered(beyond), 300);
}

TEST(Offered, TheJudgeSeesAWrongRefusal) {
  Case c;
  c.alibi = true;
  const Instance sloped = build(c);
  const auto judge = [](const Instance& instance, int32_t backend, int32_t code, int32_t reason) {
    return judge_answer(instance, backend, {code, reason, "why", {}}).result;
  };
  EXPECT_EQ(judge(sloped, VOLLEY_BACKEND_SM90, VOLLEY_NOT_OFFERED, VOLLEY_REASON_ALIBI),
            Result::kRefused);
  EXPECT_EQ(judge(sloped, VOLLEY_BACKEND_SM90, VOLLEY_NOT_OFFERED, VOLLEY_REASON_SINK),
            Result::kFailed);
  EXPECT_EQ(judge(sloped, VOLLEY_BACKEND_SM90, VOLLEY_INTERNAL, VOLLEY_REASON_ALIBI),
            Result::kFailed);
  EXPECT_EQ(judge(sloped, VOLLEY_BACKEND_CPU, VOLLEY_NOT_OFFERED, VOLLEY_REASON_ALIBI),
            Result::kFailed);
}

}  // namespace
}  // namespace volley::check
