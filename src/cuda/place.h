// SPDX-License-Identifier: BSD-3-Clause
//
// Where buffers are: a run refuses memory of the host and of other devices.
#pragma once

#include "backend.h"

namespace volley::cuda {

// Every buffer is memory of that device, or managed; so is the workspace, if there is one.
core::Status check_places(const core::Device& device, const core::Buffers& buffers,
                          core::Workspace workspace = {});

}  // namespace volley::cuda
