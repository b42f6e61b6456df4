// SPDX-License-Identifier: BSD-3-Clause
//
// VOLLEY_CHECK=1, for debugging: a run reads the length arrays from the device and refuses what is
// impossible. Without it nobody on the host looks at them, and kernels clamp what they find.
#pragma once

#include "backend.h"

namespace volley::cuda {

bool checks_lengths();  // is it asked for?

// Waits for the stream. The plan's device is current.
core::Status check_lengths(const core::Problem& problem, const core::Buffers& buffers,
                           void* stream);

}  // namespace volley::cuda
