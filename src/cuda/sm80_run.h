// SPDX-License-Identifier: BSD-3-Clause
//
// The half of the sm80 backend that needs the CUDA run time; left out of builds without it.
#pragma once

#include "backend.h"

namespace volley::cuda {

core::Status sm80_prepare(core::Plan* plan);
core::Status sm80_run(const core::Plan& plan, const core::Buffers& buffers,
                      core::Workspace workspace, void* stream);

}  // namespace volley::cuda
