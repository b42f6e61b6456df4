// SPDX-License-Identifier: BSD-3-Clause
//
// The CPU backend in its process: many host threads on one plan, a call after a fork, and memory
// that does not grow with sq * sk.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "attention_cases.h"
#include "fork_safe.h"

namespace volley::check {
namespace {

const Case kCase{.b = 2, .sq = 130, .sk = 130, .hq = 4, .hk = 2, .causal = true};

// A plan and buffers of their own outputs for each thread.
TEST(CpuProcess, EightThreadsShareOnePlan) {
  Instance instance = build(kCase);
  instance.options.num_threads = 3;
  const Instance want = answer_of(instance.clone());

  volley_error error{};
  volley_problem problem = instance.problem();
  problem.backend = VOLLEY_BACKEND_CPU;
  volley_plan* plan = nullptr;
  ASSERT_EQ(volley_plan_create(&problem, nullptr, &plan, &error), VOLLEY_OK) << error.message;
  std::atomic<int> wrong{0};
  std::vector<std::thread> hosts;
  for (int host = 0; host < 8; ++host) {
    hosts.emplace_back([&] {
      const Instance mine = instance.clone();
      const volley_problem view = mine.problem();
      volley_buffers buffers;
      for (int round = 0; round < 5; ++round) {
        if (volley_buffers_from_problem(&view, &buffers, nullptr) != VOLLEY_OK ||
            volley_run(plan, &buffers, nullptr, 0, nullptr, nullptr) != VOLLEY_OK ||
            !same_outputs(mine, want)) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  volley_plan_destroy(plan);
  EXPECT_EQ(wrong, 0);
}

TEST(CpuProcess, RunsInAForkedChild) {
  if (!kCanForkWithThreads) GTEST_SKIP() << "see fork_safe.h";
  Instance instance = build(kCase);
  instance.options.num_threads = 3;
  const Instance want = answer_of(instance.clone());
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(same_outputs(answer_of(instance.clone()), want) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

// The peak of this process's memory since the last reset, in KiB; 0 where the system tells none.
int64_t peak_kib() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::strtoll(line.c_str() + 6, nullptr, 10);
  }
  return 0;
}

bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << 5 << std::flush;
  return file.good() && peak_kib() > 0;
}

// What a run adds to the peak, in KiB; inputs and outputs are there before.
int64_t added_by_a_run(Instance& instance) {
  volley_problem problem = instance.problem();
  problem.backend = VOLLEY_BACKEND_CPU;
  volley_buffers buffers;
  EXPECT_EQ(volley_buffers_from_problem(&problem, &buffers, nullptr), VOLLEY_OK);
  for (const core::RoleInfo& role : core::kRoles) {
    if (instance.writes(role.role)) instance[role.role].fill(NAN);  // so that its pages exist
  }
  EXPECT_TRUE(reset_peak());
  const int64_t before = peak_kib();
  volley_plan* plan = nullptr;
  EXPECT_EQ(volley_plan_create(&problem, nullptr, &plan, nullptr), VOLLEY_OK);
  EXPECT_EQ(volley_run(plan, &buffers, nullptr, 0, nullptr, nullptr), VOLLEY_OK);
  volley_plan_destroy(plan);
  return peak_kib() - before;
}

constexpr int32_t kThreads = 2;

// The scores would take 1 GiB.
TEST(CpuProcess, MemoryDoesNotGrowWithThePairs) {
  if (!reset_peak()) GTEST_SKIP() << "this system does not reset the peak of a process's memory";
  Instance instance = build({.dtype = VOLLEY_F32, .sq = 16384, .sk = 16384, .causal = true});
  instance.options.num_threads = kThreads;
  EXPECT_LT(added_by_a_run(instance), (64 + 2 * kThreads) << 10);
  EXPECT_EQ(instance[Role::kO].at({0, 0, 0, 3}), instance[Role::kV].at({0, 0, 0, 3}));
}

// The same scores; eight chunks have sums of dk and dv, 64 MiB in all.
TEST(CpuProcess, MemoryOfTheBackwardDoesNotGrowWithThePairs) {
  if (!reset_peak()) GTEST_SKIP() << "this system does not reset the peak of a process's memory";
  Instance instance = build(
      {.op = VOLLEY_OP_BACKWARD, .dtype = VOLLEY_F32, .sq = 16384, .sk = 16384, .causal = true});
  instance.options.num_threads = kThreads;
  instance[Role::kO].fill(0);
  instance[Role::kLse].fill(10);
  EXPECT_LT(added_by_a_run(instance), (64 + 8 + 2 * kThreads) << 10);
  EXPECT_NE(instance[Role::kDk].at({0, 0, 0, 3}), 0);
}

}  // namespace
}  // namespace volley::check
