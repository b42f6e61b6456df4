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

// The scores would take 1 GiB. Inputs and outputs are there before.
TEST(CpuProcess, MemoryDoesNotGrowWithThePairs) {
  constexpr int32_t kThreads = 2;
  Instance instance = build({.dtype = VOLLEY_F32, .sq = 16384, .sk = 16384, .causal = true});
  instance.options.num_threads = kThreads;
  volley_problem problem = instance.problem();
  problem.backend = VOLLEY_BACKEND_CPU;
  volley_buffers buffers;
  ASSERT_EQ(volley_buffers_from_problem(&problem, &buffers, nullptr), VOLLEY_OK);
  instance[Role::kO].fill(NAN);  // so that its pages exist
  instance[Role::kLse].fill(NAN);

  if (!reset_peak()) GTEST_SKIP() << "this system does not reset the peak of a process's memory";
  const int64_t before = peak_kib();
  volley_plan* plan = nullptr;
  ASSERT_EQ(volley_plan_create(&problem, nullptr, &plan, nullptr), VOLLEY_OK);
  EXPECT_EQ(volley_run(plan, &buffers, nullptr, 0, nullptr, nullptr), VOLLEY_OK);
  volley_plan_destroy(plan);
  EXPECT_LT(peak_kib() - before, (64 + 2 * kThreads) << 10);
  EXPECT_EQ(instance[Role::kO].at({0, 0, 0, 3}), instance[Role::kV].at({0, 0, 0, 3}));
}

// Tensors take 12 MiB, the sums of eight chunks 16 MiB.
TEST(CpuProcess, MemoryOfTheBackwardDoesNotGrowWithThePairs) {
  Instance instance = build(
      {.op = VOLLEY_OP_BACKWARD, .sq = 16384, .sk = 16384, .d = 16, .dv = 16, .causal = true});
  instance[Role::kO].fill(0);
  instance[Role::kLse].fill(10);
  instance.options.num_threads = 2;
  const int64_t before = peak_kib();
  const Instance done = answer_of(instance.clone());
  EXPECT_LT(peak_kib() - before, 64 << 10);
  EXPECT_NE(done[Role::kDk].at({0, 0, 0, 3}), 0);
}

}  // namespace
}  // namespace volley::check
