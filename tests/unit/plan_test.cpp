// SPDX-License-Identifier: BSD-3-Clause
//
// Plan: which backend a device gets, the reason for each one passed over, forcing, text and JSON.
// The H200 is planned for by profile, so these tests need no GPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "plan.h"
#include "problem_builder.h"

namespace volley::core {
namespace {

ProblemBuilder hopper_problem() {
  ProblemBuilder builder(VOLLEY_BF16, 2, 512, 512, 8, 2, 128, 128);
  for (volley_tensor& tensor : builder.tensors) tensor.device_type = VOLLEY_DEVICE_CUDA;
  return builder;
}

Status plan_for(const ProblemBuilder& builder, const std::string& device, Plan* plan) {
  Problem problem;
  VOLLEY_TRY(builder.make(&problem));
  return make_plan(problem, device, plan);
}

// Sets an environment variable for the life of a test.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Plan, AnH200GetsTheHopperKernel) {
  Plan plan;
  const Status status = plan_for(hopper_problem(), "h200", &plan);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(plan.backend, VOLLEY_BACKEND_SM90);
  EXPECT_TRUE(plan.passed_over.empty());
  EXPECT_FALSE(plan.device.present);
  EXPECT_GT(plan.config.smem, 0);
  EXPECT_LE(plan.config.smem, plan.device.smem_per_block);
}

TEST(Plan, IsAValue) {
  Plan a;
  Plan b;
  Plan other;
  ASSERT_TRUE(plan_for(hopper_problem(), "h200", &a).ok());
  ASSERT_TRUE(plan_for(hopper_problem(), "h200", &b).ok());
  ASSERT_TRUE(plan_for(hopper_problem(), "h100", &other).ok());
  EXPECT_EQ(a, b);
  EXPECT_FALSE(a == other);
}

enum class Then { kV2, kNothing };  // who takes a call that the Hopper kernels do not

struct Refused {
  const char* name;
  int32_t reason;
  Then then;
  const char* device;
  void (*bend)(ProblemBuilder&);
};

void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }

class NotOnHopper : public testing::TestWithParam<Refused> {};

TEST_P(NotOnHopper, HasItsReason) {
  ProblemBuilder builder = hopper_problem();
  GetParam().bend(builder);
  Plan plan;
  const Status status = plan_for(builder, GetParam().device, &plan);
  int32_t reason = status.reason;
  if (GetParam().then == Then::kV2) {
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(plan.backend, VOLLEY_BACKEND_SM80);
    ASSERT_EQ(plan.passed_over.size(), 1u);
    EXPECT_EQ(plan.passed_over[0].backend, VOLLEY_BACKEND_SM90);
    reason = plan.passed_over[0].reason;
  } else {
    EXPECT_EQ(status.code, VOLLEY_NOT_OFFERED) << status.message;
  }
  EXPECT_EQ(volley_reason_name(reason), std::string(volley_reason_name(GetParam().reason)))
      << status.message;
}

using B = ProblemBuilder;
INSTANTIATE_TEST_SUITE_P(
    Reasons, NotOnHopper,
    testing::Values(Refused{"Fp32", VOLLEY_REASON_DTYPE, Then::kNothing, "h200",
                            [](B& b) {
                              for (const Role role : {Role::kQ, Role::kK, Role::kV, Role::kO}) {
                                b[role].dtype = VOLLEY_F32;
                              }
                            }},
                    Refused{"HeadDim", VOLLEY_REASON_HEAD_DIM, Then::kV2, "h200",
                            [](B& b) {
                              for (const Role role : {Role::kQ, Role::kK, Role::kV, Role::kO}) {
                                b[role].shape[3] = 76;
                              }
                            }},
                    Refused{"Dv", VOLLEY_REASON_HEAD_DIM, Then::kV2, "h200",
                            [](B& b) { b[Role::kV].shape[3] = b[Role::kO].shape[3] = 60; }},
                    Refused{"RowStride", VOLLEY_REASON_STRIDE, Then::kV2, "h200",
                            [](B& b) { b[Role::kK].stride[1] += 1; }},
                    Refused{"NegativeStride", VOLLEY_REASON_STRIDE, Then::kV2, "h200",
                            [](B& b) { b[Role::kV].stride[1] *= -1; }},
                    Refused{"LastStride", VOLLEY_REASON_STRIDE, Then::kV2, "h200",
                            [](B& b) { b[Role::kQ].stride[3] = 2; }},
                    Refused{"Base", VOLLEY_REASON_ALIGNMENT, Then::kV2, "h200",
                            [](B& b) { b[Role::kV].alignment = 8; }},
                    Refused{"Splits", VOLLEY_REASON_SPLITS, Then::kNothing, "h200",
                            [](B& b) { b.options.num_splits = 2; }},
                    Refused{"Softcap", VOLLEY_REASON_SOFTCAP, Then::kNothing, "h200",
                            [](B& b) { b.options.softcap = 1e-300; }},
                    Refused{"Scale", VOLLEY_REASON_SCALE, Then::kV2, "h200",
                            [](B& b) { b.options.scale = -1; }},
                    Refused{"Backward", VOLLEY_REASON_BACKWARD, Then::kV2, "h200",
                            [](B& b) { b.backward(); }},
                    Refused{"Ampere", VOLLEY_REASON_ARCH, Then::kV2, "a100", [](B&) {}},
                    Refused{"Ada", VOLLEY_REASON_ARCH, Then::kV2, "l40s", [](B&) {}}),
    [](const auto& test) { return test.param.name; });

TEST(Plan, TheCpuTakesWhatItOffersAndTheReferenceTheRest) {
  Plan plan;
  ProblemBuilder builder = ProblemBuilder::plain();
  ASSERT_TRUE(plan_for(builder, "", &plan).ok());
  EXPECT_EQ(plan.backend, VOLLEY_BACKEND_CPU);
  EXPECT_TRUE(plan.passed_over.empty());

  builder.options.num_splits = 2;
  ASSERT_TRUE(plan_for(builder, "", &plan).ok());
  EXPECT_EQ(plan.backend, VOLLEY_BACKEND_REFERENCE);
  ASSERT_EQ(plan.passed_over.size(), 1u);
  EXPECT_EQ(plan.passed_over[0].backend, VOLLEY_BACKEND_CPU);
  EXPECT_EQ(plan.passed_over[0].reason, VOLLEY_REASON_SPLITS);

  builder.options.backend = VOLLEY_BACKEND_CPU;
  const Status forced = plan_for(builder, "", &plan);
  EXPECT_EQ(forced.code, VOLLEY_NOT_OFFERED);
  EXPECT_EQ(forced.reason, VOLLEY_REASON_SPLITS);
}

TEST(Plan, TheOptionBeatsTheEnvironment) {
  const Environment environment("VOLLEY_BACKEND", "reference");
  ProblemBuilder builder = ProblemBuilder::plain();
  Plan plan;
  ASSERT_TRUE(plan_for(builder, "", &plan).ok());
  EXPECT_EQ(plan.backend, VOLLEY_BACKEND_REFERENCE);
  ASSERT_FALSE(plan.passed_over.empty());
  EXPECT_EQ(plan.passed_over[0].reason, VOLLEY_REASON_NOT_CHOSEN);
  builder.options.backend = VOLLEY_BACKEND_CPU;
  ASSERT_TRUE(plan_for(builder, "", &plan).ok());
  EXPECT_EQ(plan.backend, VOLLEY_BACKEND_CPU);
}

TEST(Plan, ABadEnvironmentIsAnError) {
  const Environment environment("VOLLEY_BACKEND", "sm91");
  Plan plan;
  const Status status = plan_for(ProblemBuilder::plain(), "", &plan);
  EXPECT_EQ(status.code, VOLLEY_INVALID_ARGUMENT);
  EXPECT_NE(status.message.find("VOLLEY_BACKEND is \"sm91\""), std::string::npos);
}

TEST(Plan, ForcingWhatCannotRunIsAnError) {
  ProblemBuilder builder = ProblemBuilder::plain();
  builder.options.backend = VOLLEY_BACKEND_SM90;
  Plan plan;
  Status status = plan_for(builder, "", &plan);
  EXPECT_EQ(status.code, VOLLEY_NOT_OFFERED);
  EXPECT_EQ(status.reason, VOLLEY_REASON_DEVICE);
  builder.options.backend = VOLLEY_BACKEND_SM80;
  builder.options.num_splits = 2;
  status = plan_for(builder, "h200", &plan);
  EXPECT_EQ(status.code, VOLLEY_NOT_OFFERED);
  EXPECT_EQ(status.reason, VOLLEY_REASON_SPLITS) << status.message;
}

TEST(Plan, UnknownAndAbsentDevices) {
  Plan plan;
  EXPECT_EQ(plan_for(hopper_problem(), "h300", &plan).code, VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(plan_for(hopper_problem(), "cuda:x", &plan).code, VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(plan_for(hopper_problem(), "cuda:99", &plan).code, VOLLEY_NO_DEVICE);
  EXPECT_EQ(plan_for(hopper_problem(), "cpu", &plan).reason, VOLLEY_REASON_DEVICE);
}

TEST(Plan, MaxSmsBoundsTheGrid) {
  ProblemBuilder builder = hopper_problem();
  for (const int32_t sms : {1, 7, 131, 132, 1000}) {
    builder.options.max_sms = sms;
    Plan plan;
    ASSERT_TRUE(plan_for(builder, "h200", &plan).ok());
    EXPECT_GE(plan.config.grid, 1);
    EXPECT_LE(plan.config.grid, std::min(sms, 132));
  }
}

TEST(Plan, JsonSaysWhatTheTextSays) {
  ProblemBuilder builder = ProblemBuilder::plain();
  builder.options.causal = 1;
  builder.options.num_splits = 2;
  Plan plan;
  ASSERT_TRUE(plan_for(builder, "", &plan).ok());
  const auto json = nlohmann::json::parse(plan_json(plan));
  EXPECT_EQ(json["backend"], "reference");
  EXPECT_EQ(json["problem"]["mask"], "causal (bottom-right)");
  EXPECT_EQ(json["passed_over"][0]["reason"], "splits");
  const std::string text = plan_text(plan);
  EXPECT_NE(text.find("passed over  cpu: "), std::string::npos) << text;
  EXPECT_EQ(plan_line(plan).find('\n'), std::string::npos);
}

TEST(Plan, IsLoggedToTheCallback) {
  std::string line;
  volley_set_log([](const char* text, void* user) { *static_cast<std::string*>(user) = text; },
                 &line);
  Plan plan;
  ASSERT_TRUE(plan_for(ProblemBuilder::plain(), "", &plan).ok());
  volley_set_log(nullptr, nullptr);
  EXPECT_EQ(line, plan_line(plan));
}

}  // namespace
}  // namespace volley::core
