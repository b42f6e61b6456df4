// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "plan.h"

namespace volley::cuda {

// The sm80 backend's plan: which V2 kernel computes a problem, and in how much workspace. It takes
// every layout; what it cannot take it names, with the value found.
core::Status sm80_plan(core::Plan* plan);

}  // namespace volley::cuda
