// SPDX-License-Identifier: BSD-3-Clause
//
// parallel_for: every task once, on named workers; from many host threads, nested, after a fork and
// at exit. Also run under ThreadSanitizer.
#include "cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "fork_safe.h"
#include "variable.h"

namespace volley::core {
namespace {

// Sum of all tasks' numbers: a task that is lost or done twice shows.
int64_t sum_of_tasks(int64_t tasks, int threads) {
  std::atomic<int64_t> sum{0};
  parallel_for(tasks, threads, [&](int64_t task, int) { sum += task; });
  return sum;
}

constexpr int64_t expected_sum(int64_t tasks) { return tasks * (tasks - 1) / 2; }

// The exit status of a child that runs `body`, or -1 when it hangs or dies.
template <class Body>
int in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const int threads : {0, 1, 2, 3, 8, 64}) {
    for (const int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      parallel_for(tasks, threads, [&](int64_t task, int) { ++runs[static_cast<size_t>(task)]; });
      for (const std::atomic<int>& count : runs) {
        ASSERT_EQ(count, 1) << tasks << " tasks, " << threads << " threads";
      }
    }
  }
}

TEST(ThreadPool, WorkersHaveNumbersOfTheirOwn) {
  constexpr int kThreads = 4;
  std::vector<std::atomic<int>> inside(kThreads);
  std::atomic<int> clashes{0};
  parallel_for(2000, kThreads, [&](int64_t, int worker) {
    ASSERT_GE(worker, 0);
    ASSERT_LT(worker, kThreads);
    if (++inside[static_cast<size_t>(worker)] != 1) ++clashes;
    std::this_thread::yield();
    --inside[static_cast<size_t>(worker)];
  });
  EXPECT_EQ(clashes, 0);
}

TEST(ThreadPool, HelpersDoTakePart) {
  std::atomic<int> meeting{0};
  parallel_for(2, 2, [&](int64_t, int) {
    ++meeting;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (meeting < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  EXPECT_EQ(meeting, 2);
}

TEST(ThreadPool, EightHostThreadsAtOnce) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> hosts;
  for (int host = 0; host < 8; ++host) {
    hosts.emplace_back([&, host] {
      for (int round = 0; round < 50; ++round) {
        const int64_t tasks = 1 + (host * 37 + round * 11) % 200;
        if (sum_of_tasks(tasks, 1 + host) != expected_sum(tasks)) ++wrong;
      }
    });
  }
  for (std::thread& host : hosts) host.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, Nests) {
  std::atomic<int64_t> sum{0};
  parallel_for(20, 4, [&](int64_t, int) { sum += sum_of_tasks(30, 4); });
  EXPECT_EQ(sum, 20 * expected_sum(30));
}

TEST(ThreadPool, WorksAfterAFork) {
  if (!kCanForkWithThreads) GTEST_SKIP() << "see fork_safe.h";
  ASSERT_EQ(sum_of_tasks(100, 4), expected_sum(100));
  const int status = in_child([] {
    if (sum_of_tasks(100, 4) != expected_sum(100)) return 1;
    // And once more, from the child's own child.
    return in_child([] { return sum_of_tasks(50, 3) == expected_sum(50) ? 0 : 1; });
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(sum_of_tasks(100, 4), expected_sum(100));
}

TEST(ThreadPool, ForkWhileOthersWork) {
  if (!kCanForkWithThreads) GTEST_SKIP() << "see fork_safe.h";
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) sum_of_tasks(64, 4);
  });
  for (int round = 0; round < 10; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      _exit(sum_of_tasks(64, 4) == expected_sum(64) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }
  stop = true;
  busy.join();
}

TEST(ThreadPool, CallsDuringExitStillWork) {
  if (!kCanForkWithThreads) GTEST_SKIP() << "see fork_safe.h";
  const int status = in_child([] {
    if (sum_of_tasks(100, 4) != expected_sum(100)) return 1;
    std::atexit([] {
      if (sum_of_tasks(100, 4) != expected_sum(100)) _exit(2);
    });
    return 0;
  });
  EXPECT_EQ(status, 0);
}

TEST(ResolveThreads, RequestThenVariableThenCores) {
  int32_t threads = 0;
  const Variable variable("VOLLEY_THREADS", "3");
  ASSERT_TRUE(resolve_threads(5, &threads).ok());
  EXPECT_EQ(threads, 5);
  ASSERT_TRUE(resolve_threads(0, &threads).ok());
  EXPECT_EQ(threads, 3);
  unsetenv("VOLLEY_THREADS");
  ASSERT_TRUE(resolve_threads(0, &threads).ok());
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(threads, CPU_COUNT(&set));
}

TEST(ResolveThreads, RefusesABadVariable) {
  for (const char* bad : {"0", "-2", "two", "4x", " 4", "1.5", "99999999999", "1025"}) {
    const Variable variable("VOLLEY_THREADS", bad);
    int32_t threads = 0;
    const Status status = resolve_threads(0, &threads);
    EXPECT_EQ(status.code, VOLLEY_INVALID_ARGUMENT) << bad;
    EXPECT_EQ(status.reason, VOLLEY_REASON_OPTION) << bad;
    EXPECT_NE(status.message.find(bad), std::string::npos) << status.message;
    EXPECT_TRUE(resolve_threads(2, &threads).ok()) << "an explicit count does not read it";
  }
}

}  // namespace
}  // namespace volley::core
