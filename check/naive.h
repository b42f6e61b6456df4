// SPDX-License-Identifier: BSD-3-Clause
//
// The yardstick of the tolerance rule: attention as a plain program in the inputs' own precision
// would compute it. S, softmax and sums in fp32, P rounded once to the inputs' type, O rounded. A
// backend's error may be a small multiple of this one's. Read compare.h next.
#pragma once

#include "case.h"

namespace volley::check {

struct Naive {
  HostTensor o;          // shape and dtype of the instance's o, contiguous
  double max_logit = 0;  // of |scaled logit| over all visible pairs
};

// Forward of an instance's inputs; its outputs are not looked at.
Naive naive_forward(const Instance& instance);

// The same for gradients, by role; P and dS are rounded once, sums are in fp32. The instance's o
// and lse are read, as the ABI's backward reads them.
struct NaiveGradients {
  std::array<HostTensor, core::kRoleCount> tensors;  // dq, dk, dv; dbias and dsink where asked for
  double max_logit = 0;
};
NaiveGradients naive_backward(const Instance& instance);

}  // namespace volley::check
