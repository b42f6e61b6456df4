// SPDX-License-Identifier: BSD-3-Clause
//
// A warp: 32 threads that meet at collectives. Each lane comes with its operands and waits; the
// last to come carries the collective out for all, and goes on; then the others do, one after the
// other from a lane that is drawn.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace volley::emulator {

struct Thread;

constexpr int kLanes = 32;
using Operands = std::array<void*, kLanes>;  // of the lanes

// Something that all lanes of a warp do together. Its identity is its address.
struct Collective {
  const char* name;
  void (*complete)(const Operands& operands);  // null: warps meet
};

// sync_cta, and the end of the kernel.
extern const Collective kBarrier, kEnd;
// named_sync; their operand is the number of threads that meet.
constexpr int kNamedBarriers = 16;
extern const Collective kNamedBarrier[kNamedBarriers];

// Of the running thread: returns when its warp has carried the collective out.
void meet(const Collective& collective, void* operands);

class Warp {
 public:
  explicit Warp(int number) : number_(number) {}

  // Runs lanes until all of them wait for other warps, or one has failed. Called by the scheduler.
  void run();
  // What they wait for, and lane 0's operand of it.
  const Collective& waits_for() const { return *at_[0]; }
  const void* operand() const { return operands_[0]; }

 private:
  friend struct Thread;
  friend void meet(const Collective&, void*);
  void complete(Thread& last);
  void make_ready();
  bool converged() const;
  std::string divergence() const;

  int number_;
  std::array<Thread*, kLanes> lanes_{};
  std::array<const Collective*, kLanes> at_{};  // where a lane waits, or has waited last
  Operands operands_{};
  uint32_t ready_ = 0;  // lanes that do not wait
  int first_ = 0;       // of these, to run: it or the next
};

// "0-3, 7": the members of a set.
std::string ranges(const std::vector<int>& members);

}  // namespace volley::emulator
