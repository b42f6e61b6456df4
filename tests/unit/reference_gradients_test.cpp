// SPDX-License-Identifier: BSD-3-Clause
//
// Every gradient of the reference against central differences of its own forward, in float64, for
// each feature alone, for all together and for random subsets.
#include "reference_features.h"

namespace volley::check {
namespace {

// sum dout o + sum dlse lse, over what exists: unused rows of dout are NaN, empty rows have no lse.
double loss(Call* call) {
  call->forward();
  double sum = 0;
  for (int64_t i = 0; i < call->o.size(); ++i) {
    if (!std::isnan(call->dout.flat(i))) sum += call->dout.flat(i) * call->o.flat(i);
  }
  for (int64_t i = 0; call->dlse.present() && i < call->lse.size(); ++i) {
    if (std::isfinite(call->lse.flat(i))) sum += call->dlse.flat(i) * call->lse.flat(i);
  }
  return sum;
}

// Elements that hold no finite value (unused rows, hidden keys) must have a gradient of 0.
void check_gradient(Call* call, const char* name, HostTensor* input, const HostTensor& gradient) {
  constexpr double kStep = 1e-5;
  constexpr double kTolerance = 1e-6;
  if (!input->present()) return;
  double largest = 1e-3;
  for (int64_t i = 0; i < gradient.size(); ++i) {
    largest = std::max(largest, std::abs(gradient.flat(i)));
  }
  for (int64_t i = 0; i < input->size(); ++i) {
    const double value = input->flat(i);
    double wanted = 0;
    if (std::isfinite(value)) {
      input->set_flat(i, value + kStep);
      wanted = loss(call);
      input->set_flat(i, value - kStep);
      wanted = (wanted - loss(call)) / (2 * kStep);
      input->set_flat(i, value);
    }
    ASSERT_NEAR(gradient.flat(i), wanted, kTolerance * largest) << name << ", element " << i;
  }
}

void check_gradients(uint32_t features, uint64_t seed) {
  SCOPED_TRACE(feature_text(features) + ", seed " + std::to_string(seed));
  Call call = make_call(features, seed);
  call.forward();
  call.backward();
  check_gradient(&call, "dq", &call.q, call.dq);
  check_gradient(&call, "dk", &call.k, call.dk);
  check_gradient(&call, "dv", &call.v, call.dv);
  check_gradient(&call, "dsink", &call.sink, call.dsink);
  check_gradient(&call, "dbias", &call.bias, call.dbias);
}

TEST(ReferenceGradients, Plain) { check_gradients(0, 1); }

TEST(ReferenceGradients, EachFeatureAlone) {
  for (uint32_t feature = 1; feature < kEveryFeature; feature <<= 1) check_gradients(feature, 2);
}

TEST(ReferenceGradients, AllTogether) {
  check_gradients(kEveryFeature & ~kBroadcastBias, 3);
  check_gradients(kEveryFeature & ~kBias, 4);
}

TEST(ReferenceGradients, RandomSubsets) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 60; ++i) check_gradients(random() & kEveryFeature, random());
}

// A wrong gradient is found: dlse left out of dS.
TEST(ReferenceGradients, TheCheckCanFail) {
  Call call = make_call(kLseGradient, 6);
  const HostTensor dlse = call.dlse;
  call.forward();
  call.dlse = {};
  call.backward();
  const double without = call.dq.flat(0);
  call.dlse = dlse;
  call.backward();
  EXPECT_GT(std::abs(call.dq.flat(0) - without), 1e-3);
}

}  // namespace
}  // namespace volley::check
