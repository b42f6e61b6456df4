// SPDX-License-Identifier: BSD-3-Clause
//
// Condition: what std::condition_variable is, for the pool in thread_pool.cpp. Since GCC 12 the
// wait of the standard one is a symbol of a libstdc++ newer than the systems that one wheel for all
// Pythons must load on (manylinux_2_34); a pthread condition is as old as the C library.
#pragma once

#include <pthread.h>

#include <mutex>

namespace volley::core {

class Condition {
 public:
  Condition() = default;
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;
  ~Condition() { pthread_cond_destroy(&condition_); }

  void notify_all() { pthread_cond_broadcast(&condition_); }

  // The lock is held when `ready` is asked, and on return.
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, Ready ready) {
    while (!ready()) pthread_cond_wait(&condition_, lock.mutex()->native_handle());
  }

 private:
  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

}  // namespace volley::core
