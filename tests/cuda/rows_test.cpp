// SPDX-License-Identifier: BSD-3-Clause
//
// Every row of the kernels' table, also those that plans prefer others to, on lengths around all
// tile sizes: with masks at every offset, on one SM, two and all, so that tiles of every kind
// follow each other in a stream. And each kernel on a small problem of each of its masks, which is
// what compute-sanitizer looks at (scripts/gpu_check.sh).
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "backend.h"
#include "cuda/config_table.h"
#include "on_hopper.h"

namespace volley::check {
namespace {

using cuda::MaskKind;

constexpr std::array<int64_t, 14> kLengths{1,   63,  64,  65,  127, 128, 129,
                                           175, 176, 177, 191, 192, 193, 300};

// The row that a plan takes for these tensors on a GPU.
int planned_row(const Instance& instance) {
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
  core::Plan plan;
  if (!core::make_problem(problem, &plan.problem).ok()) return -1;
  if (!core::find_device("h200", &plan.device).ok()) return -1;
  return core::sm90_backend().plan(&plan).ok() ? plan.config.row : -1;
}

std::vector<Case> masks_of(MaskKind kind, const Case& plain) {
  std::vector<Case> cases;
  const auto add = [&]() -> Case& { return cases.emplace_back(plain); };
  switch (kind) {
    case MaskKind::kFull: add(); break;
    case MaskKind::kCausal:
      add().causal = true;
      for (const int64_t offset : {-70, 0, 37}) {
        Case& c = add();
        c.causal = true;
        c.alignment = VOLLEY_ALIGN_EXPLICIT;
        c.offset = offset;
      }
      break;
    default: {
      Case& window = add();
      window.left = 50, window.right = 3;
      Case& used = add();
      used.used_q = {static_cast<int32_t>(plain.sq - plain.sq / 3)};
      used.used_k = {static_cast<int32_t>(plain.sk - plain.sk / 2)};
      used.causal = true;
      Case& packed = add();  // between rows that nobody owns
      packed.b = 2;
      packed.cu_q = {0, static_cast<int32_t>(plain.sq / 2), static_cast<int32_t>(plain.sq)};
      packed.cu_k = {0, static_cast<int32_t>(plain.sk / 3), static_cast<int32_t>(plain.sk)};
      packed.sq += 2, packed.sk += 2;
      packed.softcap = 20;
    }
  }
  return cases;
}

class Rows : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    std::string why;
    if (!backend_available(VOLLEY_BACKEND_SM90, &why)) GTEST_SKIP() << why;
    setenv("VOLLEY_FWD_ROW", std::to_string(GetParam()).c_str(), 1);
  }
  void TearDown() override { unsetenv("VOLLEY_FWD_ROW"); }
};

TEST_P(Rows, RaggedLengths) {
  const cuda::FwdConfig config = cuda::fwd_config(GetParam());
  size_t computed = 0;
  for (size_t at = 0; at < kLengths.size(); ++at) {
    Case plain;
    plain.dtype = config.element == cuda::Element::kBf16 ? VOLLEY_BF16 : VOLLEY_F16;
    plain.d = config.d, plain.dv = config.dv;
    plain.set_heads(2, 1);
    plain.sq = kLengths[at];
    plain.sk = kLengths[(5 * at + static_cast<size_t>(GetParam())) % kLengths.size()];
    plain.logit_std = 3;
    for (const Case& c : masks_of(config.mask, plain)) {
      Instance instance = build(c);
      instance.options.max_sms = std::array{1, 2, 0}[at % 3];
      if (planned_row(instance) != GetParam()) continue;  // its mask hides nothing
      ++computed;
      const Verdict verdict = check_forward(instance, VOLLEY_BACKEND_SM90);
      EXPECT_TRUE(verdict.result == Result::kPassed) << describe(c) << ": " << verdict.sentence;
    }
  }
  EXPECT_GT(computed, kLengths.size() * 2 / 3);
}

// Logits so far apart that tiles are computed again where the maximum is trusted.
TEST_P(Rows, SmallProblems) {
  const cuda::FwdConfig config = cuda::fwd_config(GetParam());
  Case plain;
  plain.dtype = config.element == cuda::Element::kBf16 ? VOLLEY_BF16 : VOLLEY_F16;
  plain.d = config.d, plain.dv = config.dv;
  plain.set_heads(2, 1);
  plain.sq = 193, plain.sk = 257;
  plain.logit_std = 8;
  size_t computed = 0;
  for (const Case& c : masks_of(config.mask, plain)) {
    Instance instance = build(c);
    if (planned_row(instance) != GetParam()) continue;
    ++computed;
    const Verdict verdict = check_forward(instance, VOLLEY_BACKEND_SM90);
    EXPECT_TRUE(verdict.result == Result::kPassed) << describe(c) << ": " << verdict.sentence;
  }
  EXPECT_GT(computed, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, Rows, testing::Range(0, cuda::kFwdRows));

// Head dim, and a bias or not: the forwards of the V2 path.
class V2Rows : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(V2Rows, SmallProblems) {
  std::string why;
  if (!backend_available(VOLLEY_BACKEND_SM80, &why)) GTEST_SKIP() << why;
  for (const int32_t dtype : {VOLLEY_BF16, VOLLEY_F16}) {
    Case c;
    c.dtype = dtype;
    c.d = c.dv = std::get<0>(GetParam());
    c.set_heads(2, 1);
    c.sq = 193, c.sk = 257;
    c.causal = dtype == VOLLEY_F16;
    c.bias = std::get<1>(GetParam()) ? "hqk" : "";
    Instance instance = build(c);
    const Verdict verdict = check_forward(instance, VOLLEY_BACKEND_SM80);
    EXPECT_TRUE(verdict.result == Result::kPassed) << describe(c) << ": " << verdict.sentence;
  }
}

INSTANTIATE_TEST_SUITE_P(All, V2Rows,
                         testing::Combine(testing::Values(33, 64, 128, 256), testing::Bool()));

}  // namespace
}  // namespace volley::check
