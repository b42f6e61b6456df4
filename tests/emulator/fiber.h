// SPDX-License-Identifier: BSD-3-Clause
//
// Fiber: a stack of its own and a place in a function, left and entered again by switch_to. Made
// by ucontext, whose own switch costs a system call. Later switches are the compiler's nonlocal
// goto (__builtin_setjmp): it saves three registers, makes the function that it is in save those
// that it must preserve, and jumps. There is no call in it, so the CPU goes on to predict returns
// rightly; with glibc's setjmp a switch takes three times as long.
#pragma once

#include <ucontext.h>
#include <cstddef>
#include <span>

namespace volley::emulator {

class Fiber {
 public:
  Fiber() = default;  // of a stack that runs already: the OS thread's
  Fiber(std::span<std::byte> stack, void (*body)());  // body must not return
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Leaves this fiber, which runs, for `next`. Returns when somebody switches back. Both are of one
  // OS thread.
  void switch_to(Fiber& next);

 private:
  static void start();
  void leave_for(const Fiber& next, void** fake_stack);
  static void arrive(void* fake_stack);

  std::span<std::byte> stack_;
  void (*body_)() = nullptr;
  bool started_ = true;
  void* place_[5] = {};
  ucontext_t first_{};
};

}  // namespace volley::emulator
