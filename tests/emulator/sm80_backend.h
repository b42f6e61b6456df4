// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace volley::emulator {

// Of the next launch of the sm80 backend; each one after it has the next seed (emulator/launch.h).
void set_seed(uint64_t value);

}  // namespace volley::emulator
