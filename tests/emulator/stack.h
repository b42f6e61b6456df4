// SPDX-License-Identifier: BSD-3-Clause
//
// Stack: memory for the calls of a fiber, with a page below it that must not be touched. Once made
// it is kept for other fibers, for a new one costs more than most of a small kernel's threads do.
#pragma once

#include <cstddef>
#include <span>

namespace volley::emulator {

class Stack {
 public:
  Stack();
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  // Lanes of a warp do the same at the same depth, one after the other. At a place of a page that
  // depends on the lane, their variables do not drive each other out of the first-level cache.
  std::span<std::byte> for_lane(int lane) const;

 private:
  std::byte* memory_;
};

}  // namespace volley::emulator
