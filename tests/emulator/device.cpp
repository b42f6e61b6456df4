// SPDX-License-Identifier: BSD-3-Clause
//
// Memory, barriers, and the simple collectives. Matrices: matrices.cpp.
#include "emulator/device.h"

#include <atomic>

#include "cta.h"
#include "fmt.h"

namespace volley::emulator {
namespace {

bool aligned(const void* address, int to) {
  return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(to) == 0;
}

struct Exchange {
  uint64_t value;
  int from_lane;
  uint64_t result;
};

void exchange_all(const Operands& operands) {
  for (void* lane : operands) {
    auto& own = *static_cast<Exchange*>(lane);
    own.result =
        static_cast<Exchange*>(operands[static_cast<size_t>(own.from_lane % kLanes)])->value;
  }
}

struct Vote {
  bool value;
  uint32_t result;
};

void vote_all(const Operands& operands) {
  uint32_t votes = 0;
  for (size_t lane = 0; lane < operands.size(); ++lane) {
    votes |= uint32_t{static_cast<const Vote*>(operands[lane])->value} << lane;
  }
  for (void* lane : operands) static_cast<Vote*>(lane)->result = votes;
}

void maximum_of_all(const Operands& operands) {
  int most = *static_cast<const int*>(operands[0]);
  for (void* lane : operands) most = max(most, *static_cast<const int*>(lane));
  for (void* lane : operands) *static_cast<int*>(lane) = most;
}

const Collective kSyncWarp{"sync_warp", [](const Operands&) {}};
const Collective kExchange{"a shuffle", exchange_all};
const Collective kVote{"a vote", vote_all};
const Collective kLargest{"uniform", maximum_of_all};

}  // namespace

void fail(std::string sentence) { running().cta.fail(std::move(sentence)); }

char* dynamic_shared() { return running().cta.shared().data(); }

void copy_async(void* destination, const void* source, int size, int bytes) {
  Cta& cta = running().cta;
  if (!aligned(destination, size) || !aligned(source, size)) {
    fail(fmt::format("copy_async from {} to {}; wanted are multiples of {}", source, destination,
                     size));
  }
  if (!cta.shared().contains(destination, static_cast<size_t>(size))) {
    fail("copy_async to outside of shared memory");
  }
  if (bytes < 0 || bytes > size) fail(fmt::format("copy_async of {} bytes", bytes));
  running().copies.issue(destination, source, size, bytes, cta.landing(), cta.random());
}

void commit_copies() { running().copies.commit(); }

void wait_copies(int left) { running().copies.wait(left); }

void add_atomically(float* address, float value) { std::atomic_ref<float>(*address) += value; }

void sync_cta() {
  Thread& self = running();
  self.copies.land_some(self.cta.landing(), self.cta.random());
  meet(kBarrier, nullptr);
}

void named_sync(int id, int threads) {
  if (id < 1 || id >= kNamedBarriers || threads < kLanes || threads % kLanes != 0) {
    fail(fmt::format("named_sync of barrier {} and {} threads", id, threads));
  }
  Thread& self = running();
  self.copies.land_some(self.cta.landing(), self.cta.random());
  meet(kNamedBarrier[id], &threads);
}

void sync_warp() { meet(kSyncWarp, nullptr); }

uint64_t exchange(uint64_t value, int from_lane) {
  Exchange own{value, from_lane & (kLanes - 1), 0};
  meet(kExchange, &own);
  return own.result;
}

uint32_t ballot(bool value) {
  Vote own{value, 0};
  meet(kVote, &own);
  return own.result;
}

int largest(int value) {
  meet(kLargest, &value);
  return value;
}

}  // namespace volley::emulator
