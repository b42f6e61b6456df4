// SPDX-License-Identifier: BSD-3-Clause
#include "cta.h"

#include <numeric>
#include <stdexcept>
#include <utility>

#include "fmt.h"

namespace volley::emulator {
namespace {

constinit thread_local Thread* running_thread = nullptr;

Index along_x(int x) { return {static_cast<unsigned>(x), 0, 0}; }

}  // namespace

Thread& running() { return *running_thread; }

const Indices& indices() { return running().indices; }

void switch_to(Thread& next) { std::exchange(running_thread, &next)->fiber.switch_to(next.fiber); }

Thread::Thread(Cta& its_cta, Warp& its_warp, Indices its_indices)
    : cta(its_cta),
      warp(its_warp),
      indices(its_indices),
      lane(static_cast<int>(its_indices.thread.x) % kLanes),
      fiber(stack.for_lane(lane), main) {
  warp.lanes_[static_cast<size_t>(lane)] = this;
}

// Behind the end of a CTA is the begin of the next.
void Thread::main() {
  Thread& self = running();
  for (;;) {
    self.cta.call_kernel();
    self.copies.land_all();
    meet(kEnd, nullptr);
  }
}

Cta::Cta(const LaunchShape& shape, uint64_t seed, const std::function<void()>& kernel)
    : seed_(seed), kernel_(kernel), shared_(shape.shared_bytes) {
  for (int i = 0; i < shape.threads; ++i) {
    if (i % kLanes == 0) warps_.emplace_back(i / kLanes);
    const Indices indices{along_x(i), {}, along_x(shape.threads), along_x(shape.grid)};
    threads_.emplace_back(*this, warps_.back(), indices);
  }
}

void Cta::run(int block) {
  block_ = block;
  random_ = check::Random({seed_, static_cast<uint64_t>(block)});
  constexpr Landing kLandings[] = {Landing::kAtOnce, Landing::kAtTheLatest, Landing::kAnyTime};
  landing_ = kLandings[random_.bits() % std::size(kLandings)];
  shared_.poison();
  for (Thread& thread : threads_) thread.indices.block = along_x(block);
  do {
    run_to_barrier();
  } while (&warps_[0].waits_for() != &kEnd);
  if (!shared_.guards_intact()) {
    throw std::runtime_error(
        fmt::format("CTA {} has written before or behind its {} bytes of shared memory", block,
                    shared_.size()));
  }
}

void Cta::run_to_barrier() {
  std::vector<int> order(warps_.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random_.bits() % left]);
  }
  for (const int warp : order) {
    warps_[static_cast<size_t>(warp)].run();
    if (!failure_.empty()) throw std::runtime_error(failure_);
  }
  check_all_at_barrier();
}

void Cta::check_all_at_barrier() const {
  std::vector<int> at_barrier, ended;
  for (size_t i = 0; i < warps_.size(); ++i) {
    (&warps_[i].waits_for() == &kEnd ? ended : at_barrier).push_back(static_cast<int>(i));
  }
  if (at_barrier.empty() || ended.empty()) return;
  throw std::runtime_error(
      fmt::format("CTA {} is deadlocked: warps {} wait at {}, but warps {} are at {}", block_,
                  ranges(at_barrier), kBarrier.name, ranges(ended), kEnd.name));
}

void Cta::start(Thread& thread) {
  running_thread = &thread;
  scheduler_.switch_to(thread.fiber);
}

void Cta::switch_to_scheduler() { running().fiber.switch_to(scheduler_); }

// Nobody comes back to destroy what the thread's frames hold, so the sentence is moved away.
void Cta::fail(std::string sentence) {
  failure_ = std::move(sentence);
  failure_.insert(0, fmt::format("CTA {}, thread {}: ", block_, running().indices.thread.x));
  for (;;) switch_to_scheduler();
}

}  // namespace volley::emulator
