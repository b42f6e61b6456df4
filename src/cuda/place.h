// SPDX-License-Identifier: BSD-3-Clause
//
// Where buffers are: a run refuses memory of the host and of other devices.
#pragma once

#include "backend.h"

namespace volley::cuda {

// Every buffer is memory of that device, or managed.
core::Status check_places(const core::Device& device, const core::Buffers& buffers);

}  // namespace volley::cuda
