// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace volley::emulator {

// Of the launches of the sm80 backend from now on (emulator/launch.h).
void set_seed(uint64_t value);

}  // namespace volley::emulator
