// SPDX-License-Identifier: BSD-3-Clause
//
// A CTA: threads, warps, shared memory, and the scheduler that runs warp after warp, each from
// barrier to barrier, in an order that is drawn. One is made for each OS thread and runs many CTAs,
// one after the other. Read warp.h first.
#pragma once

#include <deque>
#include <functional>

#include "copies.h"
#include "emulator/builtins.h"
#include "fiber.h"
#include "shared_memory.h"
#include "stack.h"
#include "warp.h"

namespace volley::emulator {

class Cta;

struct Thread {
  Thread(Cta& its_cta, Warp& its_warp, Indices its_indices);
  static void main();  // of the running thread

  Cta& cta;
  Warp& warp;
  Indices indices;
  int lane;
  Copies copies;
  Stack stack;
  Fiber fiber;
};

// The CUDA thread that this OS thread runs.
Thread& running();
void switch_to(Thread& next);  // from the running one

struct LaunchShape {
  int grid, threads, shared_bytes;
};

class Cta {
 public:
  Cta(const LaunchShape& shape, uint64_t seed, const std::function<void()>& kernel);

  void run(int block);  // throws std::runtime_error, and is then of no use any more

  void start(Thread& thread);  // from the scheduler; returns when a thread switches back to it
  void switch_to_scheduler();  // from the running thread
  [[noreturn]] void fail(std::string sentence);  // of the running thread
  SharedMemory& shared() { return shared_; }
  check::Random& random() { return random_; }
  Landing landing() const { return landing_; }
  void call_kernel() const { kernel_(); }

 private:
  void release(int warp, std::vector<int>* ready);
  void check_all_ended() const;

  uint64_t seed_;
  const std::function<void()>& kernel_;
  SharedMemory shared_;
  std::deque<Warp> warps_;
  std::deque<Thread> threads_;
  Fiber scheduler_;

  // Of the CTA that runs.
  int block_ = 0;
  std::vector<int> waiting_;  // warps, at barriers
  check::Random random_{0};
  Landing landing_ = Landing::kAtOnce;
  std::string failure_;
};

}  // namespace volley::emulator
