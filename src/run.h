// SPDX-License-Identifier: BSD-3-Clause
//
// Run: a plan on buffers. Checks what geometry could not: that each buffer is there and as aligned
// as the plan assumes, and that the workspace is large enough. Then the backend does the work.
#pragma once

#include "backend.h"

namespace volley::core {

Status run_plan(const Plan& plan, const volley_buffers& buffers, Workspace workspace, void* stream);

}  // namespace volley::core
