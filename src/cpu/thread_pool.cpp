// SPDX-License-Identifier: BSD-3-Clause
//
// The pool behind parallel_for. Callers queue a Job that lives on their stack; helpers take a seat
// in it, draw tasks from its counter and leave; the caller draws tasks too, takes the Job off the
// queue and waits until every seat is empty. Helpers are started when first needed and joined at
// exit. The Pool itself is never destroyed, so that calls during or after exit still work.
#include "cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "cpu/condition.h"

namespace volley::core {
namespace {

struct Job {
  const int64_t tasks;
  const PoolTask run;
  const void* const context;
  std::atomic<int64_t> next{0};
  // Guarded by the pool's mutex:
  int seats;  // helpers that may still join
  int joined = 0;
  int active = 0;

  void work(int worker) {
    for (;;) {
      const int64_t task = next.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks) return;
      run(context, task, worker);
    }
  }
};

class Pool {
 public:
  Pool(pid_t pid, const Pool* before_fork) : pid_(pid), before_fork_(before_fork) {}

  pid_t pid() const { return pid_; }

  void run(int64_t tasks, int threads, PoolTask task, const void* context) {
    const int helpers = static_cast<int>(std::min<int64_t>(threads, tasks)) - 1;
    Job job{.tasks = tasks, .run = task, .context = context, .seats = helpers};
    {
      const std::lock_guard lock(mutex_);
      start_helpers(helpers);
      jobs_.push_back(&job);
    }
    work_.notify_all();
    job.work(0);
    std::unique_lock lock(mutex_);
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    done_.wait(lock, [&] { return job.active == 0; });
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& helper : helpers_) helper.join();
  }

 private:
  // Fewer helpers than asked for is fine: the caller does the rest.
  void start_helpers(int wanted) {
    if (stopping_ || static_cast<int>(helpers_.size()) >= wanted) return;
    // Signals belong to the host's threads: a helper starts with all of them blocked but those that
    // report its own faults.
    sigset_t hosts;
    sigset_t before;
    sigfillset(&hosts);
    for (const int fault : {SIGBUS, SIGFPE, SIGILL, SIGSEGV}) sigdelset(&hosts, fault);
    pthread_sigmask(SIG_SETMASK, &hosts, &before);
    try {
      while (static_cast<int>(helpers_.size()) < wanted) helpers_.emplace_back([this] { help(); });
    } catch (const std::exception&) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void help() {
    std::unique_lock lock(mutex_);
    for (;;) {
      Job* job = nullptr;
      work_.wait(lock, [&] { return stopping_ || (job = open_job()) != nullptr; });
      if (stopping_) return;
      --job->seats;
      ++job->active;
      const int worker = ++job->joined;
      lock.unlock();
      job->work(worker);
      lock.lock();
      // The job's memory is gone once its caller sees the last helper leave.
      if (--job->active == 0) done_.notify_all();
    }
  }

  Job* open_job() const {
    for (Job* job : jobs_) {
      if (job->seats > 0) return job;
    }
    return nullptr;
  }

  const pid_t pid_;
  // Keeps the parent's pool reachable for leak checkers.
  [[maybe_unused]] const Pool* const before_fork_;
  std::mutex mutex_;
  Condition work_;
  Condition done_;
  std::vector<Job*> jobs_;
  std::vector<std::thread> helpers_;
  bool stopping_ = false;
};

std::atomic<Pool*> current_pool{nullptr};

// Threads do not survive a fork and a mutex may have been held during it: the child leaves the
// parent's pool alone and makes its own.
Pool& pool() {
  const pid_t pid = getpid();
  Pool* found = current_pool.load(std::memory_order_acquire);
  while (found == nullptr || found->pid() != pid) {
    auto* made = new Pool(pid, found);
    if (current_pool.compare_exchange_strong(found, made, std::memory_order_acq_rel)) return *made;
    delete made;
  }
  return *found;
}

// Joins the helpers when the process exits or the library is unloaded.
struct StopAtExit {
  ~StopAtExit() {
    Pool* found = current_pool.load(std::memory_order_acquire);
    if (found != nullptr && found->pid() == getpid()) found->stop();
  }
} stop_at_exit;

int usable_cores() {
  // A set of fixed size fails with EINVAL on machines with more cores than it holds.
  for (int cores = 1024; cores <= 1 << 20; cores *= 2) {
    cpu_set_t* set = CPU_ALLOC(cores);
    if (set == nullptr) break;
    const bool known = sched_getaffinity(0, CPU_ALLOC_SIZE(cores), set) == 0;
    const int count = known ? CPU_COUNT_S(CPU_ALLOC_SIZE(cores), set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

Status resolve_threads(int32_t requested, int32_t* threads) {
  if (requested > 0) {
    *threads = std::min(requested, kMaxThreads);
    return {};
  }
  const char* variable = std::getenv("VOLLEY_THREADS");
  if (variable == nullptr || *variable == '\0') {
    *threads = std::min(usable_cores(), kMaxThreads);
    return {};
  }
  const std::string_view text = variable;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *threads);
  if (error != std::errc{} || end != text.data() + text.size() || *threads < 1 ||
      *threads > kMaxThreads) {
    return invalid(VOLLEY_REASON_OPTION,
                   "VOLLEY_THREADS is \"{}\"; it must be a whole number from 1 to {}", text,
                   kMaxThreads);
  }
  return {};
}

void run_in_pool(int64_t tasks, int threads, PoolTask run, const void* context) {
  if (threads > 1 && tasks > 1) return pool().run(tasks, threads, run, context);
  for (int64_t task = 0; task < tasks; ++task) run(context, task, 0);
}

}  // namespace volley::core
