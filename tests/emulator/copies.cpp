// SPDX-License-Identifier: BSD-3-Clause
#include "copies.h"

#include <cstring>

namespace volley::emulator {

void Copies::issue(void* destination, const void* source, int size, int bytes, Landing landing,
                   check::Random& random) {
  const Copy copy{destination, source, size, bytes, group_};
  if (landing == Landing::kAtOnce || (landing == Landing::kAnyTime && random.bits() % 2 == 0)) {
    land(copy);
  } else {
    pending_.push_back(copy);
  }
}

void Copies::wait(int left) {
  std::erase_if(pending_, [&](const Copy& copy) {
    const bool complete = copy.group < group_ - left;
    if (complete) land(copy);
    return complete;
  });
}

void Copies::land_some(Landing landing, check::Random& random) {
  if (landing != Landing::kAnyTime) return;
  std::erase_if(pending_, [&](const Copy& copy) {
    const bool now = random.bits() % 2 == 0;
    if (now) land(copy);
    return now;
  });
}

void Copies::land_all() {
  for (const Copy& copy : pending_) land(copy);
  pending_.clear();
}

void Copies::land(const Copy& copy) {
  char bytes[16] = {};
  if (copy.bytes > 0) std::memcpy(bytes, copy.source, static_cast<size_t>(copy.bytes));
  std::memcpy(copy.destination, bytes, static_cast<size_t>(copy.size));
}

}  // namespace volley::emulator
