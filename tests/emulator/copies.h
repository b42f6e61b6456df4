// SPDX-License-Identifier: BSD-3-Clause
//
// The asynchronous copies of one CUDA thread. The hardware may carry one out at any time from its
// issue to the wait for its group; here that is at once, at a barrier on the way, or at the last
// moment. Source and destination are touched at that time and no other.
#pragma once

#include <vector>

#include "random.h"

namespace volley::emulator {

// When the copies of a CTA land: a property that is drawn, for in each case other mistakes show.
enum class Landing { kAtOnce, kAtTheLatest, kAnyTime };

class Copies {
 public:
  // `size` bytes, of which the first `bytes` come from `source` and the rest is zero.
  void issue(void* destination, const void* source, int size, int bytes, Landing landing,
             check::Random& random);
  void commit() { ++group_; }
  void wait(int left);  // for all groups but the last `left`

  void land_some(Landing landing, check::Random& random);  // those whose time has come, if any
  void land_all();

 private:
  struct Copy {
    void* destination;
    const void* source;
    int size, bytes;
    int group;
  };
  static void land(const Copy& copy);

  std::vector<Copy> pending_;
  int group_ = 0;  // that the next copy belongs to
};

}  // namespace volley::emulator
