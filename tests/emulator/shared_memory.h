// SPDX-License-Identifier: BSD-3-Clause
//
// A CTA's dynamic shared memory. It and the zones before and behind it hold NaN in every dtype, so
// that reading what nobody has written shows in the result; writing outside shows afterwards.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace volley::emulator {

class SharedMemory {
 public:
  explicit SharedMemory(int bytes);

  char* data() const { return memory_.get() + kGuard; }
  int size() const { return size_; }
  bool contains(const void* address, int bytes) const;

  void poison();               // all of it
  bool guards_intact() const;  // since then

 private:
  static constexpr size_t kAlignment = 1024;
  static constexpr int kGuard = 4096;  // bytes on either side
  static constexpr char kPoison = '\xff';

  struct Free {
    void operator()(char* memory) const {
      ::operator delete (memory, std::align_val_t{kAlignment});
    }
  };

  int size_;
  std::unique_ptr<char, Free> memory_;
};

}  // namespace volley::emulator
