// SPDX-License-Identifier: BSD-3-Clause
//
// The ends of the contract through the C ABI alone: sizes that no memory bounds, structs cut
// anywhere, callbacks that call back. Nothing may overflow, hang or crash.
#include <gtest/gtest.h>

#include <array>

#include "problem_builder.h"

namespace volley::core {
namespace {

constexpr int64_t kHuge = int64_t{1} << 40;
constexpr int64_t kHugest = int64_t{1} << 60;

// Inputs broadcast one row, so that their sizes cost nothing.
void broadcast_rows(ProblemBuilder* builder) {
  for (const Role role : {Role::kQ, Role::kK, Role::kV}) {
    for (int axis = 0; axis < 3; ++axis) (*builder)[role].stride[axis] = 0;
  }
}

struct Answer {
  int32_t status;
  volley_error error;
};

// Plans, runs if there is a plan, and answers the first status that is not OK.
Answer attend(const ProblemBuilder& builder, const char* device = nullptr) {
  Answer answer{};
  volley_plan* plan = nullptr;
  const volley_problem problem = builder.build();
  answer.status = volley_plan_create(&problem, device, &plan, &answer.error);
  if (answer.status == VOLLEY_OK && device == nullptr) {
    alignas(64) std::array<float, 64> memory{};
    volley_buffers buffers;
    volley_buffers_init(&buffers);
    buffers.q = buffers.k = buffers.v = memory.data();
    buffers.o = &memory[16];
    buffers.lse = &memory[32];
    answer.status = volley_run(plan, &buffers, nullptr, 0, nullptr, &answer.error);
  }
  volley_plan_destroy(plan);
  return answer;
}

class Backends : public testing::TestWithParam<int32_t> {};

TEST_P(Backends, HugeEmptyProblemsReturnAtOnce) {
  struct Sizes {
    int64_t b, sq, sk, hq, hk;
  };
  for (const Sizes s :
       {Sizes{kHuge, 0, 3, 1, 1}, Sizes{kHuge, 3, 3, 0, 0}, Sizes{0, kHuge, 5, 2, 1},
        Sizes{kHuge, 0, 0, 4, 2}, Sizes{kHuge, 0, 65536, 4, 2}}) {
    ProblemBuilder builder(VOLLEY_F32, s.b, s.sq, s.sk, s.hq, s.hk, 4, 4);
    broadcast_rows(&builder);
    builder.options.backend = GetParam();
    const Answer answer = attend(builder);
    EXPECT_EQ(answer.status, VOLLEY_OK) << s.b << " " << s.sq << ": " << answer.error.message;
  }
}

TEST_P(Backends, CountsThatDoNotFit64BitsAreRefused) {
  struct Sizes {
    int64_t b, sq, sk, hq, hk;
  };
  for (const Sizes s : {Sizes{0, kHuge, 0, kHuge, 1}, Sizes{kHugest, 0, 0, kHugest, 1},
                        Sizes{kHugest, 0, 0, 0, kHugest}, Sizes{kHuge, kHuge, 0, 0, 0},
                        Sizes{0, 0, kHuge, kHuge, kHuge}}) {
    ProblemBuilder builder(VOLLEY_F32, 0, 0, 0, 1, 1, 4, 4);
    for (const Role role : {Role::kQ, Role::kO}) {
      builder[role].shape[0] = s.b;
      builder[role].shape[1] = s.sq;
      builder[role].shape[2] = s.hq;
    }
    for (const Role role : {Role::kK, Role::kV}) {
      builder[role].shape[0] = s.b;
      builder[role].shape[1] = s.sk;
      builder[role].shape[2] = s.hk;
    }
    builder.drop(Role::kLse);
    builder.options.backend = GetParam();
    const Answer answer = attend(builder);
    EXPECT_EQ(answer.status, VOLLEY_INVALID_ARGUMENT) << s.b << " " << s.sq << " " << s.hq;
  }
}

// b comes from cu_seqlens, rows and heads from q: each tensor alone is small enough.
TEST_P(Backends, CountsOfPackedSequencesAreBoundedToo) {
  ProblemBuilder builder;
  for (const Role role : {Role::kQ, Role::kK, Role::kV, Role::kO}) {
    builder.set(role, contiguous(VOLLEY_F32, {kHuge, 64, 4}));
  }
  for (const Role role : {Role::kCuSeqlensQ, Role::kCuSeqlensK}) {
    builder.set(role, contiguous(VOLLEY_I32, {kHuge + 1}));
  }
  builder.options.backend = GetParam();
  Answer answer = attend(builder);
  EXPECT_EQ(answer.status, VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(answer.error.reason, VOLLEY_REASON_SHAPE);
  builder.options.max_seqlen_q = builder.options.max_seqlen_k = 2048;
  answer = attend(builder, "cpu");
  EXPECT_NE(answer.error.reason, VOLLEY_REASON_SHAPE) << answer.error.message;
}

INSTANTIATE_TEST_SUITE_P(All, Backends,
                         testing::Values(VOLLEY_BACKEND_REFERENCE, VOLLEY_BACKEND_CPU));

TEST(Extremes, AStructCutAnywhereIsReadOrRefused) {
  const ProblemBuilder builder(VOLLEY_F32, 1, 2, 2, 1, 1, 4, 4);
  alignas(8) std::array<char, 2 * sizeof(volley_problem)> bytes{};
  const volley_problem whole = builder.build();
  std::memcpy(bytes.data(), &whole, sizeof whole);
  auto* problem = reinterpret_cast<volley_problem*>(bytes.data());
  for (uint64_t size = 0; size <= bytes.size(); ++size) {
    problem->size = size;
    volley_plan* plan = nullptr;
    volley_error error{};
    const int32_t status = volley_plan_create(problem, nullptr, &plan, &error);
    volley_plan_destroy(plan);
    if (size % 8 != 0) {
      EXPECT_EQ(error.reason, VOLLEY_REASON_STRUCT) << size;
    } else if (size >= sizeof whole) {
      EXPECT_EQ(status, VOLLEY_OK) << size << ": " << error.message;
    }
  }
}

TEST(Extremes, BuffersCutAnywhereAreReadOrRefused) {
  const ProblemBuilder builder(VOLLEY_F32, 1, 2, 2, 1, 1, 4, 4);
  const volley_problem problem = builder.build();
  volley_plan* plan = nullptr;
  ASSERT_EQ(volley_plan_create(&problem, nullptr, &plan, nullptr), VOLLEY_OK);
  alignas(64) std::array<float, 64> memory{};
  volley_buffers buffers;
  volley_buffers_init(&buffers);
  buffers.q = buffers.k = buffers.v = memory.data();
  buffers.o = &memory[16];
  buffers.lse = &memory[32];
  for (uint64_t size = 0; size <= sizeof buffers; ++size) {
    buffers.size = size;
    volley_error error{};
    const int32_t status = volley_run(plan, &buffers, nullptr, 0, nullptr, &error);
    const bool holds_all = size >= offsetof(volley_buffers, cu_seqlens_q);
    EXPECT_EQ(status == VOLLEY_OK, size % 8 == 0 && holds_all) << size;
  }
  volley_plan_destroy(plan);
}

TEST(Extremes, CombineOfHugeEmptyTensorsReturnsAtOnce) {
  const volley_tensor o_parts = contiguous(VOLLEY_F32, {0, kHuge, 0, 4, 8});
  const volley_tensor lse_parts = contiguous(VOLLEY_F32, {0, kHuge, 4, 0});
  const volley_tensor o = contiguous(VOLLEY_F32, {kHuge, 0, 4, 8});
  EXPECT_EQ(volley_combine(&o_parts, &lse_parts, nullptr, &o, nullptr, nullptr, nullptr),
            VOLLEY_OK);
}

TEST(Extremes, ALogCallbackMayCallTheLibrary) {
  static int lines;
  lines = 0;
  volley_set_log(
      [](const char*, void*) {
        ++lines;
        volley_set_log(nullptr, nullptr);
      },
      nullptr);
  const ProblemBuilder builder(VOLLEY_F32, 1, 2, 2, 1, 1, 4, 4);
  EXPECT_EQ(attend(builder).status, VOLLEY_OK);
  EXPECT_EQ(attend(builder).status, VOLLEY_OK);
  EXPECT_EQ(lines, 1);
}

TEST(Extremes, AnFp64SinkIsTheReferences) {
  ProblemBuilder builder(VOLLEY_F32, 1, 2, 2, 1, 1, 4, 4);
  builder.set(Role::kSink, contiguous(VOLLEY_F64, {1}));
  builder.options.backend = VOLLEY_BACKEND_CPU;
  const Answer answer = attend(builder);
  EXPECT_EQ(answer.status, VOLLEY_NOT_OFFERED);
  EXPECT_EQ(answer.error.reason, VOLLEY_REASON_DTYPE);
}

}  // namespace
}  // namespace volley::core
