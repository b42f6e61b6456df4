// SPDX-License-Identifier: BSD-3-Clause
#include "plan_cache.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <mutex>

#include "log.h"

namespace volley::core {
namespace {

constexpr size_t kKeptPlans = 256;  // about 4 KB each

// Never destroyed: a plan may be made while the process exits.
PlanCache& process_cache() {
  static PlanCache& cache = *new PlanCache(kKeptPlans);
  return cache;
}

}  // namespace

bool PlanKey::append(const void* data, size_t size) {
  if (size > bytes_.size() - size_) return false;
  std::memcpy(bytes_.data() + size_, data, size);
  size_ += size;
  return true;
}

// What decides the plan of a tensor, and nothing beyond its ndim.
bool PlanKey::append_tensor(const volley_tensor& tensor, uint8_t role) {
  if (tensor.ndim < 0 || tensor.ndim > 5 || tensor.reserved != 0) return false;
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(tensor.data));
  const struct {
    int64_t alignment;
    int32_t dtype, device_type, device_id;
    uint8_t role, ndim, has_data, address_zeros;
  } head = {tensor.alignment,
            tensor.dtype,
            tensor.device_type,
            tensor.device_id,
            role,
            static_cast<uint8_t>(tensor.ndim),
            tensor.data != nullptr,
            static_cast<uint8_t>(std::min(std::countr_zero(address), 7))};  // problem_tensor.cpp
  static_assert(sizeof head == 24, "padding would enter the key");
  const size_t axes = static_cast<size_t>(tensor.ndim) * sizeof(int64_t);
  return append(&head, sizeof head) && append(tensor.shape, axes) && append(tensor.stride, axes);
}

bool PlanKey::append_environment() {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    constexpr std::string_view kOurs = "VOLLEY_";
    if (**entry != kOurs.front()) continue;  // nearly all others, without a call
    if (std::strncmp(*entry, kOurs.data(), kOurs.size()) != 0) continue;
    if (!append(*entry, std::strlen(*entry) + 1)) return false;
  }
  return true;
}

bool PlanKey::read(const volley_problem& problem, std::string_view device) {
  size_ = 0;
  if (problem.size != sizeof problem || device == "cpu" || problem.q == nullptr ||
      problem.q->device_type != VOLLEY_DEVICE_CUDA) {
    return false;
  }
  constexpr size_t kScalars = offsetof(volley_problem, scale);
  static_assert(offsetof(volley_problem, q) == 16, "size, op, backend");
  if (!append(&problem.op, sizeof problem.op) ||
      !append(&problem.backend, sizeof problem.backend) ||
      !append(&problem.scale, sizeof problem - kScalars)) {
    return false;
  }
  for (const RoleInfo& role : kRoles) {
    const volley_tensor* tensor = nullptr;
    std::memcpy(&tensor, reinterpret_cast<const char*>(&problem) + role.problem_offset,
                sizeof tensor);
    if (tensor != nullptr && !append_tensor(*tensor, static_cast<uint8_t>(role.role))) return false;
  }
  constexpr char kEnd = static_cast<char>(kRoleCount);  // no role: the tensors end here
  return append(&kEnd, 1) && append(device.data(), device.size()) && append("", 1) &&
         append_environment();
}

// Multiplies 8 bytes at a time into four sums that do not wait for each other; std::hash, with one
// sum, takes three times as long, which was a fifth of a lookup.
size_t PlanCache::Hash::operator()(std::string_view key) const {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
  constexpr size_t kSums = 4, kBytes = kSums * sizeof(uint64_t);
  std::array<uint64_t, kSums> sums = {key.size(), 1, 2, 3}, words = {};
  const auto add = [&] {
    for (size_t i = 0; i < kSums; ++i) sums[i] = (std::rotl(sums[i], 23) ^ words[i]) * kOdd;
  };
  while (key.size() >= kBytes) {
    std::memcpy(words.data(), key.data(), kBytes);
    add();
    key.remove_prefix(kBytes);
  }
  words = {};
  std::memcpy(words.data(), key.data(), key.size());
  add();
  uint64_t all = 0;
  for (const uint64_t sum : sums) all = (std::rotl(all, 23) ^ sum) * kOdd;
  return all ^ (all >> 32);
}

std::shared_ptr<const Plan> PlanCache::find(std::string_view key) const {
  const std::shared_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return nullptr;
  const auto at = entries_.find(key);
  if (at == entries_.end()) return nullptr;
  at->second.last_use.store(++uses_, std::memory_order_relaxed);
  return at->second.plan;
}

void PlanCache::insert(std::string_view key, std::shared_ptr<const Plan> plan) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  Entry& entry = entries_[std::string(key)];
  entry.plan = std::move(plan);
  entry.last_use.store(++uses_, std::memory_order_relaxed);
  if (entries_.size() <= capacity_) return;
  entries_.erase(
      std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
        return a.second.last_use.load() < b.second.last_use.load();
      }));
}

size_t PlanCache::size() const {
  const std::shared_lock lock(mutex_);
  return entries_.size();
}

Status plan_for(const volley_problem& problem, std::string_view device,
                std::shared_ptr<const Plan>* out) {
  PlanKey key;
  const bool keep = key.read(problem, device);
  if (keep) *out = process_cache().find(key.bytes());
  if (*out != nullptr) {
    if (log_wanted()) log_line(plan_line(**out));
    return {};
  }
  Problem checked;
  VOLLEY_TRY(make_problem(problem, &checked));
  auto plan = std::make_shared<Plan>();
  VOLLEY_TRY(make_plan(checked, std::string(device), plan.get()));
  if (keep) process_cache().insert(key.bytes(), plan);
  *out = std::move(plan);
  return {};
}

}  // namespace volley::core
