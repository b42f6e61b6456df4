// SPDX-License-Identifier: BSD-3-Clause
//
// The backward of the CPU backend: dq, dk, dv, and the gradients of bias and sink.
#pragma once

#include "backend.h"
#include "cpu/gradient_work.h"

namespace volley::core {

Status cpu_backward(const Plan& plan, const Buffers& buffers);

// The sums of dS over what the bias broadcasts along: bias_gradient.cpp.
void bias_gradient(const GradientWork& work, int threads);

}  // namespace volley::core
