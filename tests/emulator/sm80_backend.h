// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace volley::emulator {

// Of the next launch of the sm80 backend; each one after it has the next seed (emulator/launch.h).
void set_seed(uint64_t value);

// The GPU that plans are made for from now on; its name lives on. A smaller one gets other kernels.
constexpr const char* kDevice = "h200";
void set_device(const char* name);

}  // namespace volley::emulator
