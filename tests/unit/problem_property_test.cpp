// SPDX-License-Identifier: BSD-3-Clause
//
// Problem under random abuse: valid problems with a few fields overwritten by hostile values. Never
// a crash (run it under the asan preset), an error always has a reason and one sentence, and what
// is accepted keeps the promises that everything behind Problem relies on.
#include <gtest/gtest.h>

#include <random>

#include "dtype.h"
#include "offers.h"
#include "problem_builder.h"

namespace volley::core {
namespace {

constexpr int64_t kHostile[] = {0,
                                1,
                                -1,
                                2,
                                3,
                                5,
                                7,
                                64,
                                65,
                                1024,
                                1025,
                                1 << 20,
                                INT32_MAX,
                                int64_t{1} << 32,
                                int64_t{1} << 40,
                                int64_t{1} << 62,
                                INT64_MAX,
                                INT64_MIN};
constexpr int32_t kDtypes[] = {VOLLEY_I32,  VOLLEY_I64, VOLLEY_BOOL, VOLLEY_F16,
                               VOLLEY_F32,  VOLLEY_F64, VOLLEY_BF16, VOLLEY_E4M3,
                               VOLLEY_E8M0, 0,          -1,          12345};

using Random = std::mt19937_64;

template <class T, size_t N>
T pick(Random& random, const T (&values)[N]) {
  return values[random() % N];
}

ProblemBuilder random_valid(Random& random) {
  const bool fp8 = random() % 4 == 0;
  ProblemBuilder builder(fp8 ? VOLLEY_E4M3 : VOLLEY_BF16, 2, 5, 7, 4, 2, 8, 8);
  if (random() % 2) builder.set(Role::kSink, contiguous(VOLLEY_F32, {4}));
  if (random() % 2) builder.set(Role::kBias, contiguous(VOLLEY_F32, {2, 1, 5, 7}));
  if (random() % 2) builder.set(Role::kMask, contiguous(VOLLEY_BOOL, {1, 4, 5, 7}));
  if (random() % 2) builder.set(Role::kAlibiSlopes, contiguous(VOLLEY_F32, {2, 4}));
  if (random() % 2) builder.set(Role::kSequsedQ, contiguous(VOLLEY_I32, {2}));
  if (random() % 2) builder.set(Role::kSequsedK, contiguous(VOLLEY_I32, {2}));
  if (fp8) builder.set(Role::kQDescale, contiguous(VOLLEY_F32, {2, 4, 1}));
  if (fp8) builder.set(Role::kKDescale, contiguous(VOLLEY_E8M0, {2, 2, 1}));
  if (!fp8 && random() % 2) builder.backward();
  return builder;
}

void bend(Random& random, ProblemBuilder* builder) {
  const auto role = static_cast<Role>(random() % kRoleCount);
  volley_tensor& tensor = (*builder)[role];
  switch (random() % 9) {
    case 0: tensor.shape[random() % 5] = pick(random, kHostile); break;
    case 1: tensor.stride[random() % 5] = pick(random, kHostile); break;
    case 2: tensor.dtype = pick(random, kDtypes); break;
    case 3: tensor.ndim = static_cast<int32_t>(random() % 9) - 2; break;
    case 4: tensor.alignment = pick(random, kHostile); break;
    case 5: builder->drop(role); break;
    case 6: builder->present[static_cast<size_t>(role)] = true; break;
    case 7: {  // any 32-bit option
      constexpr size_t kFirst = offsetof(volley_problem, causal);
      const size_t words = (sizeof(volley_problem) - kFirst) / 4;
      const auto value = static_cast<int32_t>(pick(random, kHostile));
      std::memcpy(reinterpret_cast<char*>(&builder->options) + kFirst + random() % words * 4,
                  &value, sizeof value);
      break;
    }
    default: {  // any double
      const double values[] = {0, -1, 1e308, NAN, INFINITY, -INFINITY, 0.5};
      double* numbers[] = {&builder->options.scale, &builder->options.softcap,
                           &builder->options.dropout_p};
      *numbers[random() % 3] = pick(random, values);
    }
  }
}

void check_promises(const Problem& p) {
  ASSERT_GE(p.b, 0);
  ASSERT_TRUE(p.hk == 0 ? p.hq == 0 : p.hq % p.hk == 0);
  ASSERT_TRUE(p.d >= 1 && p.d <= 1024 && p.dv >= 1 && p.dv <= 1024);
  ASSERT_TRUE(std::isfinite(p.scale) && std::isfinite(p.softcap));
  ASSERT_EQ(p[Role::kQ].ndim, 4);
  ASSERT_EQ(p[Role::kK].ndim, 4);
  for (const Tensor& tensor : p.tensors) {
    if (!tensor.present) continue;
    ASSERT_GE(tensor.alignment, dtype_size(tensor.dtype));
    long double reach = 0;
    for (int32_t i = 0; i < tensor.ndim; ++i) {
      ASSERT_GE(tensor.shape[i], 0);
      if (tensor.shape[i] > 1) {
        const auto step = static_cast<long double>(tensor.shape[i] - 1) * tensor.stride[i];
        reach += step < 0 ? -step : step;
      }
    }
    ASSERT_LE(reach * dtype_size(tensor.dtype), static_cast<long double>(INT64_MAX));
  }
}

TEST(ProblemProperty, HostileFieldsNeverCrash) {
  const uint64_t seed = testing::UnitTest::GetInstance()->random_seed()
                            ? testing::UnitTest::GetInstance()->random_seed()
                            : 20261130;
  int accepted = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    Random random(seed + i);
    ProblemBuilder builder = random_valid(random);
    for (uint64_t bends = random() % 4; bends > 0; --bends) bend(random, &builder);
    Problem problem;
    const Status status = builder.make(&problem);
    SCOPED_TRACE(testing::Message() << "seed " << seed + i);
    if (status.ok()) {
      ++accepted;
      check_promises(problem);
      features_of(problem);
      for (const int32_t backend : {VOLLEY_BACKEND_REFERENCE, VOLLEY_BACKEND_CPU}) {
        const Status offer = check_offer(problem, backend);
        ASSERT_EQ(offer.ok(), offer.message.empty());
      }
    } else {
      ASSERT_NE(status.reason, VOLLEY_REASON_NONE);
      ASSERT_FALSE(status.message.empty());
      ASSERT_EQ(status.message.find('\n'), std::string::npos);
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(accepted, 2000);  // the abuse is not so wild that nothing gets through
  EXPECT_LT(accepted, 18000);
}

}  // namespace
}  // namespace volley::core
