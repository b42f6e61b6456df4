// SPDX-License-Identifier: BSD-3-Clause
//
// The host side of the V2 kernels: from a plan to the launches of a run. Pure, plain C++: what does
// launch (sm80_run.cpp; the emulator in tests) is a Queue. Nothing here allocates or synchronises.
#pragma once

#include "backend.h"
#include "cuda/sm80/params.h"

namespace volley::cuda::v2 {

struct Grid {
  int blocks;
  int threads;
  int shared;  // bytes
};

// Where kernels go, in order.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual core::Status pack(const Grid& grid, const PackParams& params) = 0;
  virtual core::Status forward(int row, const Grid& grid, const ForwardParams& params) = 0;
};

// An operand that is copied into the workspace before the kernel can read it.
struct Packing {
  core::Role role;
  uint64_t offset;    // in the workspace, bytes
  PackParams params;  // all but addresses
  Grid grid;
};

struct ForwardLaunch {
  int row = -1;
  Grid grid{};             // no blocks: nothing to do
  ForwardParams params{};  // all but addresses
  std::vector<Packing> packings;
  uint64_t workspace = 0;  // bytes
};

// The launches of a plan whose config.row is set.
ForwardLaunch make_forward(const core::Plan& plan);

core::Status enqueue_forward(const ForwardLaunch& launch, const core::Buffers& at,
                             core::Workspace workspace, Queue& queue);

}  // namespace volley::cuda::v2
