// SPDX-License-Identifier: BSD-3-Clause
//
// check/device_memory.h where the GPU is emulated: device memory is the host's. An executable that
// has this file among its sources does not link the one of volley_check, whose every symbol is
// defined here.
#include "device_memory.h"

#include <cstring>
#include <new>
#include <utility>

namespace volley::check {
namespace {

constexpr auto kAlignment = std::align_val_t{256};  // a HostTensor's

void* pointer(uint64_t memory) { return reinterpret_cast<void*>(memory); }

}  // namespace

bool gpu_available(std::string* why) {
  if (why != nullptr) why->clear();
  return true;
}

std::string gpu_synchronize() { return {}; }

DeviceCopy::DeviceCopy(const HostTensor& host) {
  if (!host.present()) return;
  const std::span<std::byte> storage = host.storage();
  void* const copy = ::operator new(storage.size(), kAlignment);
  std::memcpy(copy, storage.data(), storage.size());
  memory_ = reinterpret_cast<uint64_t>(copy);
  tensor_ = *host.view();
  tensor_.data =
      static_cast<std::byte*>(copy) + (static_cast<std::byte*>(host.data()) - storage.data());
}

DeviceCopy::DeviceCopy(DeviceCopy&& other) noexcept
    : memory_(std::exchange(other.memory_, 0)), tensor_(other.tensor_) {}

DeviceCopy& DeviceCopy::operator=(DeviceCopy&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(tensor_, other.tensor_);
  return *this;
}

DeviceCopy::~DeviceCopy() { ::operator delete(pointer(memory_), kAlignment); }

bool DeviceCopy::download(HostTensor* host) const {
  if (memory_ == 0) return false;
  const std::span<std::byte> storage = host->storage();
  std::memcpy(storage.data(), pointer(memory_), storage.size());
  return true;
}

}  // namespace volley::check
