// SPDX-License-Identifier: BSD-3-Clause
#include "stack.h"

#include <sys/mman.h>
#include <mutex>
#include <new>
#include <vector>

#if VOLLEY_EMULATOR_ASAN
#  include <sanitizer/asan_interface.h>
#else
#  define ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#endif

namespace volley::emulator {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kBytes = 64 * kPage;  // what is touched of it takes memory

struct Pool {
  std::mutex mutex;
  std::vector<std::byte*> idle;
};

Pool& pool() {
  static Pool instance;
  return instance;
}

std::byte* make() {
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, kPage, PROT_NONE);
  return static_cast<std::byte*>(memory);
}

std::byte* take() {
  const std::lock_guard lock(pool().mutex);
  std::vector<std::byte*>& idle = pool().idle;
  if (idle.empty()) return make();
  std::byte* const memory = idle.back();
  idle.pop_back();
  // Of calls that never returned.
  ASAN_UNPOISON_MEMORY_REGION(memory + kPage, kBytes - kPage);
  return memory;
}

}  // namespace

Stack::Stack() : memory_(take()) {}

Stack::~Stack() {
  const std::lock_guard lock(pool().mutex);
  pool().idle.push_back(memory_);
}

std::span<std::byte> Stack::for_lane(int lane) const {
  const size_t shift = static_cast<size_t>(lane) * (kPage / 32);
  return {memory_ + kPage, kBytes - kPage - shift};
}

}  // namespace volley::emulator
