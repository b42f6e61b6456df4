// SPDX-License-Identifier: BSD-3-Clause
#include "cta.h"

#include <algorithm>
#include <iterator>
#include <map>
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
  waiting_.clear();
  std::vector<int> ready(warps_.size());
  std::iota(ready.begin(), ready.end(), 0);
  while (!ready.empty()) {
    std::swap(ready[random_.bits() % ready.size()], ready.back());
    const int warp = ready.back();
    ready.pop_back();
    warps_[static_cast<size_t>(warp)].run();
    if (!failure_.empty()) throw std::runtime_error(failure_);
    release(warp, &ready);
  }
  check_all_ended();
  if (!shared_.guards_intact()) {
    throw std::runtime_error(
        fmt::format("CTA {} has written before or behind its {} bytes of shared memory", block,
                    shared_.size()));
  }
}

// `warp` waits. If it is the last to come to its barrier, all that wait there are ready again.
void Cta::release(int warp, std::vector<int>* ready) {
  const auto at = [&](int other) { return &warps_[static_cast<size_t>(other)].waits_for(); };
  const Collective* const barrier = at(warp);
  if (barrier == &kEnd) return;
  waiting_.push_back(warp);
  const auto wanted =
      barrier == &kBarrier
          ? static_cast<int64_t>(warps_.size())
          : *static_cast<const int*>(warps_[static_cast<size_t>(warp)].operand()) / kLanes;
  const auto here = [&](int other) { return at(other) == barrier; };
  if (std::count_if(waiting_.begin(), waiting_.end(), here) < wanted) return;
  std::copy_if(waiting_.begin(), waiting_.end(), std::back_inserter(*ready), here);
  std::erase_if(waiting_, here);
}

void Cta::check_all_ended() const {
  if (waiting_.empty()) return;
  std::vector<int> ended;
  std::map<std::string, std::vector<int>> at;
  for (int i = 0; i < static_cast<int>(warps_.size()); ++i) {
    const bool waits = std::find(waiting_.begin(), waiting_.end(), i) != waiting_.end();
    (waits ? at[warps_[static_cast<size_t>(i)].waits_for().name] : ended).push_back(i);
  }
  std::string sentence;
  for (const auto& [name, warps] : at) {
    sentence +=
        fmt::format("{}warps {} wait at {}", sentence.empty() ? "" : ", ", ranges(warps), name);
  }
  if (!ended.empty()) sentence += fmt::format(", but warps {} are at {}", ranges(ended), kEnd.name);
  throw std::runtime_error(fmt::format("CTA {} is deadlocked: {}", block_, sentence));
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
