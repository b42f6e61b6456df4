// SPDX-License-Identifier: BSD-3-Clause
//
// parallel_for: one loop over independent tasks, spread over the threads of the process's pool. The
// calling thread always works too, so a call finishes even when no helper is free: any number of
// host threads may call at once, and a task may call again. After a fork the child builds a pool of
// its own. Both CPU backends use it; read attention.cpp next.
#pragma once

#include <cstdint>

#include "status.h"

namespace volley::core {

inline constexpr int kMaxThreads = 1024;

// How many threads a call may use: `requested` if it is positive, else VOLLEY_THREADS, else the
// cores that this process may run on. INVALID_ARGUMENT when VOLLEY_THREADS is not a count.
Status resolve_threads(int32_t requested, int32_t* threads);

using PoolTask = void (*)(const void* context, int64_t task, int worker);
void run_in_pool(int64_t tasks, int threads, PoolTask run, const void* context);

// Calls fn(task, worker) for every task in [0, tasks), in no particular order, and returns when all
// are done. worker < threads names the thread within this call (0 is the caller), so that it can
// index scratch memory. fn must not throw.
template <class Fn>
void parallel_for(int64_t tasks, int threads, const Fn& fn) {
  const auto call = [](const void* context, int64_t task, int worker) {
    (*static_cast<const Fn*>(context))(task, worker);
  };
  run_in_pool(tasks, threads, call, &fn);
}

}  // namespace volley::core
