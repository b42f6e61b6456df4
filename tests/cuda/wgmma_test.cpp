// SPDX-License-Identifier: BSD-3-Clause
//
// Every form of wgmma against a scalar product. Inputs are small whole numbers, so the sums are
// exact and every element must be equal. That proves the wrappers' operand lists and everything
// that cuda/common/layout.cuh says of fragments, tiles and descriptors.
#include <gtest/gtest.h>

#include "device_memory.h"
#include "dtype.h"
#include "random.h"
#include "wgmma_products.h"

namespace volley::test {
namespace {

using cuda::Element;

class Wgmma : public testing::TestWithParam<std::tuple<Element, int>> {};

std::string describe(const testing::TestParamInfo<std::tuple<Element, int>>& info) {
  const auto [element, n] = info.param;
  return std::string(element == Element::kBf16 ? "Bf16" : "F16") + "N" + std::to_string(n);
}

struct Operands {
  std::vector<float> a, b, d;  // whole numbers
};

Operands draw(int n, uint64_t seed) {
  check::Random random(seed);
  const auto fill = [&](size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random.integer(-8, 8));
    return values;
  };
  return {fill(kM * kK), fill(static_cast<size_t>(kK * n)), fill(static_cast<size_t>(kM * n))};
}

std::vector<uint16_t> encode(Element element, const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (const float value : values) {
    bits.push_back(element == Element::kBf16 ? core::float_to_bf16(value)
                                             : core::float_to_f16(value));
  }
  return bits;
}

std::vector<float> scalar_product(const Operands& x, int n, bool accumulate) {
  std::vector<float> d = x.d;
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = accumulate ? d[i * n + j] : 0;
      for (int k = 0; k < kK; ++k) sum += x.a[i * kK + k] * x.b[k * n + j];
      d[i * n + j] = sum;
    }
  }
  return d;
}

TEST_P(Wgmma, EqualsAScalarProduct) {
  std::string why;
  if (!check::gpu_available(&why)) GTEST_SKIP() << why;
  const auto [element, n] = GetParam();
  const Operands x = draw(n, static_cast<uint64_t>(n));
  for (const Form form : {Form::kSsK, Form::kSsMN, Form::kRsK, Form::kRsMN}) {
    for (const bool accumulate : {false, true}) {
      std::vector<float> d = x.d;
      std::string error;
      ASSERT_TRUE(multiply(element, n, form, accumulate, encode(element, x.a), encode(element, x.b),
                           &d, &error))
          << error;
      EXPECT_EQ(d, scalar_product(x, n, accumulate))
          << "form " << static_cast<int>(form) << ", accumulate " << accumulate;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Wgmma,
                         testing::Combine(testing::Values(Element::kBf16, Element::kF16),
                                          testing::Range(16, 257, 16)),
                         describe);

}  // namespace
}  // namespace volley::test
