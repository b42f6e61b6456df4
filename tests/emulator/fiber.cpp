// SPDX-License-Identifier: BSD-3-Clause
#include "fiber.h"

#include <cstdlib>

#if VOLLEY_EMULATOR_ASAN
#  include <sanitizer/common_interface_defs.h>
#endif

namespace volley::emulator {
namespace {

constinit thread_local Fiber* starting = nullptr;  // what this OS thread enters for the first time

}  // namespace

Fiber::Fiber(std::span<std::byte> stack, void (*body)())
    : stack_(stack), body_(body), started_(false) {
  getcontext(&first_);
  first_.uc_stack.ss_sp = stack.data();
  first_.uc_stack.ss_size = stack.size();
  first_.uc_link = nullptr;
  makecontext(&first_, start, 0);
}

void Fiber::start() {
  arrive(nullptr);
  starting->body_();
}

void Fiber::switch_to(Fiber& next) {
  void* fake_stack = nullptr;
  leave_for(next, &fake_stack);
  if (__builtin_setjmp(place_) == 0) {
    if (next.started_) __builtin_longjmp(next.place_, 1);
    next.started_ = true;
    starting = &next;
    setcontext(&next.first_);
    std::abort();  // it has returned, so it has failed
  }
  arrive(fake_stack);
}

// AddressSanitizer must know which stack is used. Its name for the OS thread's own, which nobody
// has given us, is learnt when that is first left.
#if VOLLEY_EMULATOR_ASAN
static constinit thread_local Fiber* left = nullptr;

void Fiber::leave_for(const Fiber& next, void** fake_stack) {
  left = this;
  __sanitizer_start_switch_fiber(fake_stack, next.stack_.data(), next.stack_.size());
}

void Fiber::arrive(void* fake_stack) {
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(fake_stack, &bottom, &size);
  left->stack_ = {static_cast<std::byte*>(const_cast<void*>(bottom)), size};
}
#else
void Fiber::leave_for(const Fiber&, void**) {}
void Fiber::arrive(void*) {}
#endif

}  // namespace volley::emulator
