// SPDX-License-Identifier: BSD-3-Clause
//
// Plans made before: geometry seen again is a lookup. The key is everything that a plan depends on:
// the caller's problem with its tensors (of an address only the alignment), the device's name and
// the environment's VOLLEY_* variables. Plans for a CPU are not kept: they also depend on the cores
// that the thread may run on at that moment.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "plan.h"

namespace volley::core {

// The key's bytes, made without allocating.
class PlanKey {
 public:
  // False: no plan of this call is kept, because it is for a CPU, or too long, or not valid.
  bool read(const volley_problem& problem, std::string_view device);
  std::string_view bytes() const { return {bytes_.data(), size_}; }

 private:
  bool append(const void* data, size_t size);
  bool append_tensor(const volley_tensor& tensor, uint8_t role);
  bool append_environment();

  std::array<char, 2048> bytes_;
  size_t size_ = 0;
};

// Any number of threads may call at once. Nobody ever waits: who would have to finds nothing, or
// keeps nothing, and makes the plan anew. So a child forked at any moment can go on.
class PlanCache {
 public:
  explicit PlanCache(size_t capacity) : capacity_(capacity) {}

  std::shared_ptr<const Plan> find(std::string_view key) const;  // empty: not here
  void insert(std::string_view key, std::shared_ptr<const Plan> plan);
  size_t size() const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view key) const;
  };
  struct Entry {
    std::shared_ptr<const Plan> plan;
    mutable std::atomic<uint64_t> last_use = 0;
  };

  const size_t capacity_;  // beyond it, what was unused for longest goes
  mutable std::atomic<uint64_t> uses_ = 0;
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> entries_;
};

// The plan of a caller's problem, from the cache of the process or made. device empty: the one that
// the tensors are on.
Status plan_for(const volley_problem& problem, std::string_view device,
                std::shared_ptr<const Plan>* out);

}  // namespace volley::core
