// SPDX-License-Identifier: BSD-3-Clause
//
// The cache of plans: the same geometry is found again, whatever differs makes another plan, it is
// bounded, any number of threads may use it, and a lookup is quick.
#include "plan_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "../cpu/fork_safe.h"
#include "problem_builder.h"

namespace volley::core {
namespace {

using PlanPointer = std::shared_ptr<const Plan>;

ProblemBuilder hopper_problem(int64_t sq = 300) {
  ProblemBuilder builder(VOLLEY_BF16, 2, sq, 500, 4, 2, 64, 64);
  for (volley_tensor& tensor : builder.tensors) tensor.device_type = VOLLEY_DEVICE_CUDA;
  return builder;
}

PlanPointer plan_of(const ProblemBuilder& builder, const char* device = "h200") {
  PlanPointer plan;
  const Status status = plan_for(builder.build(), device, &plan);
  EXPECT_TRUE(status.ok()) << status.message;
  return plan;
}

std::string key_of(const ProblemBuilder& builder, const char* device = "h200") {
  PlanKey key;
  EXPECT_TRUE(key.read(builder.build(), device));
  return std::string(key.bytes());
}

bool has_key(const volley_problem& problem, const char* device = "h200") {
  return PlanKey().read(problem, device);
}

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

TEST(PlanCache, TheSameGeometryIsTheSamePlan) {
  const PlanPointer plan = plan_of(hopper_problem());
  EXPECT_EQ(plan_of(hopper_problem()), plan);
  ProblemBuilder elsewhere = hopper_problem();
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that nobody reads
  elsewhere[Role::kQ].data = reinterpret_cast<void*>(uintptr_t{1} << 20);
  const PlanPointer moved = plan_of(elsewhere);
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  elsewhere[Role::kQ].data = reinterpret_cast<void*>(uintptr_t{3} << 20);
  EXPECT_EQ(plan_of(elsewhere), moved);
}

// Every byte of every tensor and option, one at a time.
TEST(PlanCache, WhateverDiffersIsAnotherKey) {
  std::set<std::string> keys = {key_of(hopper_problem())};
  size_t bent = 1;
  const auto expect_new = [&](const ProblemBuilder& builder, const char* device = "h200") {
    EXPECT_TRUE(keys.insert(key_of(builder, device)).second) << "after " << bent << " keys";
    ++bent;
  };
  const size_t scale = offsetof(volley_problem, scale);
  for (size_t i = scale; i < sizeof(volley_problem); ++i) {
    ProblemBuilder builder = hopper_problem();
    reinterpret_cast<unsigned char*>(&builder.options)[i] ^= 1u;
    expect_new(builder);
  }
  for (const Role role : {Role::kQ, Role::kK, Role::kV, Role::kO, Role::kLse}) {
    const auto expect_bent = [&](auto bend) {
      ProblemBuilder builder = hopper_problem();
      bend(builder[role]);
      expect_new(builder);
    };
    expect_bent([](volley_tensor& t) { t.dtype = VOLLEY_F16; });
    expect_bent([](volley_tensor& t) { t.device_id = 1; });
    expect_bent([](volley_tensor& t) { t.alignment = 32; });
    expect_bent([](volley_tensor& t) { --t.ndim; });
    for (const uintptr_t address : {8, 16, 64, 128}) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that nobody reads
      expect_bent([&](volley_tensor& t) { t.data = reinterpret_cast<void*>(address); });
    }
    for (int axis = 0; axis < 3; ++axis) {
      expect_bent([&](volley_tensor& t) { t.shape[axis] += 1; });
      expect_bent([&](volley_tensor& t) { t.stride[axis] += 8; });
    }
  }
  ProblemBuilder builder = hopper_problem();
  builder.options.op = VOLLEY_OP_BACKWARD;
  expect_new(builder);
  builder = hopper_problem();
  builder.options.backend = VOLLEY_BACKEND_SM90;
  expect_new(builder);
  builder = hopper_problem();
  builder.drop(Role::kLse);
  expect_new(builder);
  builder.set(Role::kDlse, hopper_problem()[Role::kLse]);  // the same tensor in another role
  expect_new(builder);
  expect_new(hopper_problem(), "h100");
  expect_new(hopper_problem(), "");
}

TEST(PlanCache, TheEnvironmentIsPartOfTheKey) {
  const PlanPointer plan = plan_of(hopper_problem());
  {
    const Environment environment("VOLLEY_BACKEND", "sm90");
    EXPECT_NE(plan_of(hopper_problem()), plan);
  }
  EXPECT_EQ(plan_of(hopper_problem()), plan);
  const Environment environment("VOLLEY_BACKEND", "nonsense");
  PlanPointer refused;
  EXPECT_FALSE(plan_for(hopper_problem().build(), "h200", &refused).ok());
}

TEST(PlanCache, WhatCannotBeKeptIsPlannedAnew) {
  EXPECT_FALSE(has_key(ProblemBuilder::plain().build()));  // the CPU's
  EXPECT_FALSE(has_key(hopper_problem().build(), "cpu"));
  const ProblemBuilder valid = hopper_problem();
  volley_problem older = valid.build();
  older.size -= 8;
  EXPECT_FALSE(has_key(older));
  ProblemBuilder broken = hopper_problem();
  broken[Role::kQ].ndim = 6;
  EXPECT_FALSE(has_key(broken.build()));
  EXPECT_FALSE(has_key(hopper_problem().build(), std::string(5000, 'x').c_str()));
  const PlanPointer plan = plan_of(ProblemBuilder::plain(), "");
  const PlanPointer again = plan_of(ProblemBuilder::plain(), "");
  EXPECT_NE(plan, again);
  EXPECT_EQ(*plan, *again);
}

TEST(PlanCache, FailuresAreNotKept) {
  ProblemBuilder builder = hopper_problem();
  builder[Role::kK].shape[2] = 3;  // 4 query heads
  for (int i = 0; i < 2; ++i) {
    PlanPointer plan;
    EXPECT_EQ(plan_for(builder.build(), "h200", &plan).code, VOLLEY_INVALID_ARGUMENT);
    EXPECT_EQ(plan, nullptr);
  }
}

TEST(PlanCache, IsBoundedAndKeepsWhatIsUsed) {
  PlanCache cache(8);
  const auto plan = std::make_shared<const Plan>();
  cache.insert("used", plan);
  for (int i = 0; i < 100; ++i) {
    cache.insert(std::to_string(i), std::make_shared<const Plan>());
    EXPECT_EQ(cache.find("used"), plan);
  }
  EXPECT_EQ(cache.size(), 8u);
  EXPECT_EQ(cache.find("0"), nullptr);
  EXPECT_NE(cache.find("99"), nullptr);
}

TEST(PlanCache, AHitIsLoggedLikeTheFirst) {
  std::vector<std::string> lines;
  volley_set_log([](const char* text,
                    void* user) { static_cast<std::vector<std::string>*>(user)->push_back(text); },
                 &lines);
  plan_of(hopper_problem(77));
  plan_of(hopper_problem(77));
  volley_set_log(nullptr, nullptr);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], lines[1]);
}

// Readers and writers at once, over more geometries than are kept; each gets its own geometry's.
TEST(PlanCache, ThreadsGetTheirOwnPlans) {
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&wrong, t] {
      for (int64_t i = 0; i < 1200; ++i) {
        const int64_t sq = 1 + (i * 7 + static_cast<int64_t>(t) * 13) % 300;
        const PlanPointer plan = plan_of(hopper_problem(sq));
        wrong[t] += plan == nullptr || plan->problem.max_sq != sq;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) EXPECT_EQ(count, 0);
}

// Locks that other threads hold stay locked in the child.
TEST(PlanCache, AForkedChildPlansOn) {
  if (!kCanForkWithThreads) GTEST_SKIP() << "this sanitizer's own locks hang after a fork";
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int64_t sq = 1; !done; sq = sq % 2000 + 1) plan_of(hopper_problem(sq));
  });
  for (int64_t i = 0; i < 100; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // a deadlock ends by this signal
      const PlanPointer plan = plan_of(hopper_problem(3000 + i));
      _exit(plan != nullptr && plan->problem.max_sq == 3000 + i ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "child " << i << ": " << status;
    if (HasFailure()) break;
  }
  done = true;
  writer.join();
}

// The best of many batches: what it takes when nothing else disturbs.
double lookup_nanoseconds() {
  const ProblemBuilder builder = hopper_problem();
  const volley_problem problem = builder.build();
  constexpr int kBatch = 200;
  double best = 1e9;
  for (int batch = 0; batch < 200; ++batch) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kBatch; ++i) {
      volley_plan* plan = nullptr;
      volley_plan_create(&problem, "h200", &plan, nullptr);
      volley_plan_destroy(plan);
    }
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() / kBatch);
  }
  return best;
}

TEST(PlanCache, ALookupTakesLessThanAMicrosecond) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
  GTEST_SKIP() << "a sanitizer or a debug build: times mean nothing";
#endif
  const double nanoseconds = lookup_nanoseconds();
  RecordProperty("nanoseconds", std::to_string(nanoseconds));
  EXPECT_LT(nanoseconds, 1000);
}

}  // namespace
}  // namespace volley::core
