// SPDX-License-Identifier: BSD-3-Clause
//
// The yardstick of the tolerance rule: attention as a plain program in the inputs' own precision
// would compute it. S, softmax and sums in fp32, P rounded once to the inputs' type, O rounded. A
// backend's error may be a small multiple of this one's. Read compare.h next.
#pragma once

#include "case.h"
#include "compare.h"

namespace volley::check {

struct Naive {
  HostTensor o;          // shape and dtype of the instance's o, contiguous
  double max_logit = 0;  // of |scaled logit| over all visible pairs
  Rounding rounding;     // of an fp32 o of narrower inputs; its `most` is max_logit's matter
};

// Forward of an instance's inputs; its outputs are not looked at.
Naive naive_forward(const Instance& instance);

// The same for gradients, by role; P, dS and a wider dout are rounded once to the inputs' type,
// sums are in fp32. The instance's o and lse are read, as the ABI's backward reads them.
struct NaiveGradients {
  std::array<HostTensor, core::kRoleCount> tensors;  // dq, dk, dv; dbias and dsink where asked for
  double max_logit = 0;
  // By role: how far two fp32 roundings at each pair, of dO.v and of dO.o, move an element when
  // they add up as if at random; the largest of all elements, which stands for the rms as well.
  std::array<Rounding, core::kRoleCount> rounding{};
};
NaiveGradients naive_backward(const Instance& instance);

}  // namespace volley::check
