// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels of this build and the choice among them, made once when a plan is made.
#pragma once

#include <cstdint>
#include <span>

#include "cpu/kernel/kernel.h"
#include "status.h"

namespace volley::core {

// Slowest first; also those that this CPU cannot run.
std::span<const Kernel* const> kernels();

bool runs_here(const Kernel& kernel);

// The index in kernels() of the one that VOLLEY_CPU names, else of the fastest that runs here.
// INVALID_ARGUMENT when VOLLEY_CPU names none or one that this CPU cannot run.
Status choose_kernel(int32_t* index);

}  // namespace volley::core
