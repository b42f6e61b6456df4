// SPDX-License-Identifier: BSD-3-Clause
//
// volley.hpp: what it adds to the C ABI (defaults, views, results); the attention itself is tested
// through volley.h. Compiled as C++17.
#include <gtest/gtest.h>
#include <volley/volley.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace {

volley::Operands small(std::vector<float>& memory) {
  memory.assign(4 * 12, 1.0f);
  volley::Operands x;
  x.q = volley::view(memory.data(), {1, 3, 1, 4});
  x.k = volley::view(memory.data() + 12, {1, 3, 1, 4});
  x.v = volley::view(memory.data() + 24, {1, 3, 1, 4});
  x.o = volley::view(memory.data() + 36, {1, 3, 1, 4});
  return x;
}

TEST(CppApi, OptionDefaultsAreThoseOfTheCAbi) {
  volley_problem wanted;
  std::memset(&wanted, 0, sizeof wanted);
  volley_problem_init(&wanted);
  volley_problem made = volley::detail::problem_of(VOLLEY_OP_FORWARD, {}, {});
  EXPECT_TRUE(std::isnan(wanted.scale) && std::isnan(made.scale));
  wanted.scale = made.scale = 0;  // NaN payloads may differ
  EXPECT_EQ(std::memcmp(&wanted, &made, sizeof made), 0);
}

TEST(CppApi, ViewsAreContiguousUnlessStridesAreGiven) {
  float memory[24] = {};
  volley::Tensor a = volley::view(memory, {2, 3, 4});
  EXPECT_EQ(a.c().dtype, VOLLEY_F32);
  EXPECT_EQ(a.stride(0), 12);
  EXPECT_EQ(a.stride(1), 4);
  EXPECT_EQ(a.stride(2), 1);
  EXPECT_EQ(volley::view(memory, {2, 3}, {7, 2}).stride(0), 7);
  EXPECT_EQ(a.on_cuda(3).c().device_type, VOLLEY_DEVICE_CUDA);
  EXPECT_EQ(a.on_cuda(3).c().device_id, 3);
}

TEST(CppApi, MalformedViewsAreRefusedNotTruncated) {
  std::vector<float> memory;
  volley::Operands x = small(memory);
  x.q = volley::view(memory.data(), {1, 1, 1, 3, 1, 4});  // six axes
  volley::Result<void> six = volley::attention(x);
  ASSERT_FALSE(six);
  EXPECT_EQ(six.error().code, VOLLEY_INVALID_ARGUMENT);
  x.q = volley::view(memory.data(), {1, 3, 1, 4}, {12, 4, 1});  // three strides
  volley::Result<void> three = volley::attention(x);
  ASSERT_FALSE(three);
  EXPECT_EQ(three.error().code, VOLLEY_INVALID_ARGUMENT);
}

TEST(CppApi, AnErrorCarriesCodeReasonAndSentence) {
  std::vector<float> memory;
  volley::Operands x = small(memory);
  x.k.reset();
  volley::Result<volley::Plan> plan = volley::Plan::forward(x);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(plan.error().reason, VOLLEY_REASON_NULL);
  EXPECT_NE(plan.error().message.find("k"), std::string::npos);
  EXPECT_THROW(plan.value(), volley::BadResult);
}

TEST(CppApi, PlansMoveCompareAndDescribeThemselves) {
  std::vector<float> memory;
  volley::Operands x = small(memory);
  volley::Plan a = volley::Plan::forward(x).value();
  volley::Plan b = std::move(a);
  volley::Options causal;
  causal.causal = true;
  EXPECT_TRUE(b == volley::Plan::forward(x).value());
  EXPECT_TRUE(b != volley::Plan::forward(x, causal).value());
  EXPECT_NE(b.text().find(b.backend_name()), std::string::npos);
  EXPECT_EQ(b.json().front(), '{');
  EXPECT_EQ(std::strlen(b.json().c_str()), b.json().size());
}

TEST(CppApi, AttentionRunsOnTheCpu) {
  std::vector<float> memory;
  volley::Operands x = small(memory);  // all ones: every weight is 1/3, every output 1
  std::fill(memory.begin() + 36, memory.end(), std::numeric_limits<float>::quiet_NaN());
  ASSERT_TRUE(volley::attention(x));
  for (int i = 36; i < 48; ++i) EXPECT_FLOAT_EQ(memory[i], 1.0f) << i;
}

}  // namespace
