// SPDX-License-Identifier: BSD-3-Clause
//
// The launches of the V2 kernels: from a plan to what a run enqueues. Pure, plain C++. Nothing here
// allocates or synchronises.
#pragma once

#include "cuda/sm80_operands.h"
#include "cuda/sm80_query_gradients.h"

namespace volley::cuda::v2 {

struct ForwardLaunch {
  int row = -1;
  Grid grid{};             // no blocks: nothing to do
  ForwardParams params{};  // all but addresses
  Operands operands;
  uint64_t workspace = 0;  // bytes
};

// The launches of a plan whose config.row is set.
ForwardLaunch make_forward(const core::Plan& plan);

core::Status enqueue_forward(const ForwardLaunch& launch, const core::Buffers& buffers,
                             core::Workspace workspace, Queue& queue);

struct BackwardLaunch {
  int row = -1;
  Element element{};
  Grid grid{};              // no blocks: no key has a gradient
  BackwardParams params{};  // all but addresses
  Grid delta_grid{};        // no blocks: there are no queries
  DeltaParams delta{};
  Grid dq_grid{};  // the same, or `queries` computes dq
  DqParams dq{};
  QueryLaunch queries;
  DbiasLaunch dbias;
  DsinkLaunch dsink;
  Operands operands;
  uint64_t delta_offset = 0;  // in the workspace
  uint64_t dq_offset = 0;
  uint64_t dq_bytes = 0;
  uint64_t workspace = 0;  // bytes
};

BackwardLaunch make_backward(const core::Plan& plan);

core::Status enqueue_backward(const BackwardLaunch& launch, const core::Buffers& buffers,
                              core::Workspace workspace, Queue& queue);

}  // namespace volley::cuda::v2
