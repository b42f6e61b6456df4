// SPDX-License-Identifier: BSD-3-Clause
#include "shared_memory.h"

#include <cstdint>
#include <cstring>

namespace volley::emulator {

SharedMemory::SharedMemory(int bytes)
    : size_(bytes),
      memory_(static_cast<char*>(::operator new (static_cast<size_t>(bytes) + 2 * kGuard,
                                                 std::align_val_t{kAlignment}))) {}

bool SharedMemory::contains(const void* address, int bytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(data());
  const auto at = reinterpret_cast<uintptr_t>(address);
  return at >= begin && at + static_cast<uintptr_t>(bytes) <= begin + static_cast<uintptr_t>(size_);
}

void SharedMemory::poison() {
  std::memset(memory_.get(), kPoison, static_cast<size_t>(size_) + 2 * kGuard);
}

bool SharedMemory::guards_intact() const {
  const auto intact = [](const char* zone) {
    return zone[0] == kPoison && std::memcmp(zone, zone + 1, kGuard - 1) == 0;
  };
  return intact(memory_.get()) && intact(data() + size_);
}

}  // namespace volley::emulator
