// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels of the CPU backend below the ABI: accuracy of their exp and tanh, and the choice that
// VOLLEY_CPU makes.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "cpu/kernel/choose.h"
#include "variable.h"

namespace volley::core {
namespace {

// Distance in units of the last place of the exact value.
double ulps(float got, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(got - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

// The largest error over the floats from 0 down to `lowest`, each 1009th of them.
double worst_error(void (*function)(float*, int64_t), double (*exact)(double), float lowest) {
  std::vector<float> x;
  for (uint32_t bits = 0x80000000u; bits <= std::bit_cast<uint32_t>(lowest); bits += 1009) {
    x.push_back(std::bit_cast<float>(bits));
  }
  x.resize((x.size() + 15) / 16 * 16, lowest);
  std::vector<float> y = x;
  function(y.data(), static_cast<int64_t>(y.size()));
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, ulps(y[i], exact(x[i])));
  return worst;
}

std::vector<const Kernel*> kernels_here() {
  std::vector<const Kernel*> here;
  for (const Kernel* kernel : kernels()) {
    if (runs_here(*kernel)) here.push_back(kernel);
  }
  return here;
}

TEST(Kernel, ExpIsWithinTwoUlps) {
  for (const Kernel* kernel : kernels_here()) {
    EXPECT_LE(worst_error(kernel->exp, std::exp, -87.3365f), 1.02) << kernel->name;
    float x[16] = {0, -0.0f, -87.34f, -100, -1e30f, -INFINITY, NAN, 1};
    kernel->exp(x, 16);
    EXPECT_EQ(x[0], 1) << kernel->name << ": the largest logit weighs exactly 1";
    EXPECT_EQ(x[1], 1) << kernel->name;
    for (int i = 2; i < 6; ++i) EXPECT_EQ(x[i], 0) << kernel->name << " " << i;
    EXPECT_TRUE(std::isnan(x[6])) << kernel->name;
    EXPECT_LE(ulps(x[7], std::exp(1.0)), 1.02) << kernel->name;
  }
}

TEST(Kernel, TanhIsWithinTwoUlps) {
  for (const Kernel* kernel : kernels_here()) {
    EXPECT_LE(worst_error(kernel->tanh, std::tanh, -12.0f), 1.5) << kernel->name;
    float x[16] = {0, 20, -20, INFINITY, -INFINITY, NAN, 0.5f, -0.5f, 3, -3};
    kernel->tanh(x, 16);
    EXPECT_EQ(x[0], 0) << kernel->name;
    for (const int i : {1, 3}) EXPECT_EQ(x[i], 1) << kernel->name << " " << i;
    for (const int i : {2, 4}) EXPECT_EQ(x[i], -1) << kernel->name << " " << i;
    EXPECT_TRUE(std::isnan(x[5])) << kernel->name;
    for (const int i : {6, 8}) EXPECT_EQ(x[i], -x[i + 1]) << kernel->name << ": odd";
  }
}

TEST(Kernel, VariableForcesOne) {
  for (size_t i = 0; i < kernels().size(); ++i) {
    const Variable variable("VOLLEY_CPU", kernels()[i]->name);
    int32_t index = -1;
    const Status status = choose_kernel(&index);
    ASSERT_EQ(status.ok(), runs_here(*kernels()[i])) << status.message;
    if (!status.ok()) continue;
    EXPECT_EQ(index, static_cast<int32_t>(i));
  }
}

TEST(Kernel, FastestRunsByDefault) {
  int32_t index = -1;
  ASSERT_TRUE(choose_kernel(&index).ok());
  EXPECT_EQ(kernels()[static_cast<size_t>(index)], kernels_here().back());
}

TEST(Kernel, RefusesABadVariable) {
  const Variable variable("VOLLEY_CPU", "avx3");
  int32_t index = -1;
  const Status status = choose_kernel(&index);
  EXPECT_EQ(status.code, VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(status.reason, VOLLEY_REASON_OPTION);
  EXPECT_NE(status.message.find("avx3"), std::string::npos) << status.message;
  EXPECT_NE(status.message.find("portable"), std::string::npos) << status.message;
}

}  // namespace
}  // namespace volley::core
