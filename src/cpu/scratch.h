// SPDX-License-Identifier: BSD-3-Clause
//
// Scratch: floats for the kernels of the CPU backend, aligned to a cache line, not initialised.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "status.h"

namespace volley::core {

inline constexpr int64_t kScratchAlignment = 16;  // floats: a cache line, and the widest vector

inline int64_t padded(int64_t floats) {
  return (floats + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

class Scratch {
 public:
  Status allocate(int64_t floats) {
    const auto bytes = static_cast<size_t>(padded(floats > 0 ? floats : 1)) * sizeof(float);
    memory_.reset(
        static_cast<float*>(std::aligned_alloc(kScratchAlignment * sizeof(float), bytes)));
    if (memory_ != nullptr) return {};
    return make_status(VOLLEY_OUT_OF_MEMORY, VOLLEY_REASON_NONE,
                       "no memory for {} bytes of scratch", bytes);
  }

  float* at(int64_t floats) const { return memory_.get() + floats; }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::unique_ptr<float, Free> memory_;
};

}  // namespace volley::core
