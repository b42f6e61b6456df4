// SPDX-License-Identifier: BSD-3-Clause
//
// The C ABI around a run: what is refused before anything is computed, and that the next call
// works.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "problem_builder.h"

namespace volley::core {
namespace {

// A small dense forward on the CPU with its memory and plan.
class Run : public testing::Test {
 protected:
  void SetUp() override {
    problem_ = builder_.build();
    ASSERT_EQ(volley_plan_create(&problem_, nullptr, &plan_, &error_), VOLLEY_OK) << error_.message;
    volley_buffers_init(&buffers_);
    buffers_.q = memory_[0].data();
    buffers_.k = memory_[1].data();
    buffers_.v = memory_[2].data();
    buffers_.o = memory_[3].data();
    buffers_.lse = memory_[4].data();
  }
  void TearDown() override { volley_plan_destroy(plan_); }

  int32_t run() { return volley_run(plan_, &buffers_, nullptr, 0, nullptr, &error_); }
  std::string message() const { return error_.message; }

  ProblemBuilder builder_{VOLLEY_F32, 1, 2, 2, 1, 1, 4, 4};
  volley_problem problem_;
  volley_plan* plan_ = nullptr;
  volley_buffers buffers_;
  volley_error error_{};
  std::vector<std::vector<double>> memory_ = std::vector(5, std::vector<double>(16, 0.0));
};

TEST_F(Run, Works) { EXPECT_EQ(run(), VOLLEY_OK) << message(); }

TEST_F(Run, AMissingBufferIsNamedAndTheNextCallWorks) {
  const void* k = buffers_.k;
  buffers_.k = nullptr;
  EXPECT_EQ(run(), VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(error_.reason, VOLLEY_REASON_NULL);
  EXPECT_EQ(message(), "k is NULL, the plan's problem has it");
  buffers_.k = k;
  EXPECT_EQ(run(), VOLLEY_OK);
}

TEST_F(Run, ABufferTooManyIsRefused) {
  buffers_.sink = memory_[0].data();
  EXPECT_EQ(run(), VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(message(), "sink has a buffer, but the plan's problem has no sink");
}

TEST_F(Run, ALessAlignedBufferIsRefused) {
  buffers_.v = static_cast<const char*>(buffers_.v) + 4;
  EXPECT_EQ(run(), VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(error_.reason, VOLLEY_REASON_ALIGNMENT);
}

TEST_F(Run, UninitialisedBuffersAreRefused) {
  buffers_.size = 0;
  EXPECT_EQ(run(), VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(error_.reason, VOLLEY_REASON_STRUCT);
}

TEST_F(Run, NullsAreRefusedEverywhere) {
  EXPECT_EQ(volley_run(nullptr, &buffers_, nullptr, 0, nullptr, &error_), VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(volley_run(plan_, nullptr, nullptr, 0, nullptr, &error_), VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(volley_run(nullptr, nullptr, nullptr, 0, nullptr, nullptr), VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(volley_plan_create(nullptr, nullptr, nullptr, &error_), VOLLEY_INVALID_ARGUMENT);
  volley_plan_destroy(nullptr);
  EXPECT_EQ(volley_plan_backend(nullptr), VOLLEY_BACKEND_AUTO);
  EXPECT_EQ(volley_plan_describe(nullptr, VOLLEY_FORMAT_TEXT, nullptr, 0), 0u);
}

TEST_F(Run, AProfilesPlanCannotRun) {
  volley_plan* plan = nullptr;
  ProblemBuilder builder(VOLLEY_BF16, 1, 2, 2, 1, 1, 64, 64);
  const volley_problem problem = builder.build();
  ASSERT_EQ(volley_plan_create(&problem, "h200", &plan, &error_), VOLLEY_OK) << message();
  EXPECT_EQ(volley_run(plan, &buffers_, nullptr, 0, nullptr, &error_), VOLLEY_INVALID_ARGUMENT);
  EXPECT_NE(message().find("profile h200"), std::string::npos);
  volley_plan_destroy(plan);
}

TEST_F(Run, DescribeIsCutButTerminated) {
  const uint64_t length = volley_plan_describe(plan_, VOLLEY_FORMAT_TEXT, nullptr, 0);
  std::string whole(length + 1, 'x');
  EXPECT_EQ(volley_plan_describe(plan_, VOLLEY_FORMAT_TEXT, whole.data(), whole.size()), length);
  char cut[8];
  EXPECT_EQ(volley_plan_describe(plan_, VOLLEY_FORMAT_TEXT, cut, sizeof cut), length);
  EXPECT_EQ(std::string(cut), whole.substr(0, 7));
}

TEST_F(Run, BuffersComeFromTheProblem) {
  builder_[Role::kQ].data = memory_[0].data();
  builder_[Role::kLse].data = memory_[4].data();
  const volley_problem problem = builder_.build();
  volley_buffers buffers;
  ASSERT_EQ(volley_buffers_from_problem(&problem, &buffers, &error_), VOLLEY_OK);
  EXPECT_EQ(buffers.q, memory_[0].data());
  EXPECT_EQ(buffers.lse, memory_[4].data());
  EXPECT_EQ(buffers.k, nullptr);
}

TEST_F(Run, AnOlderBuffersStructIsNotOverrun) {
  builder_[Role::kQ].data = memory_[0].data();
  builder_[Role::kLse].data = memory_[4].data();
  const volley_problem problem = builder_.build();
  volley_buffers buffers;
  std::memset(static_cast<void*>(&buffers), 0x5a, sizeof buffers);
  constexpr uint64_t kOlder = offsetof(volley_buffers, lse);
  ASSERT_EQ(volley_buffers_from_problem_sized(&problem, &buffers, kOlder, &error_), VOLLEY_OK);
  EXPECT_EQ(buffers.size, kOlder);
  EXPECT_EQ(buffers.q, memory_[0].data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers.lse), 0x5a5a5a5a5a5a5a5au);
}

}  // namespace
}  // namespace volley::core
