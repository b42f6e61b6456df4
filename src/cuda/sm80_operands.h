// SPDX-License-Identifier: BSD-3-Clause
//
// What the launches of the V2 forward and backward share: from a problem's tensors to the kernels'
// parameters, and copies of operands that the kernels cannot read where they lie. Pure, plain C++.
#pragma once

#include <vector>

#include "backend.h"
#include "cuda/sm80/config.h"
#include "cuda/sm80/params.h"
#include "cuda/sm80/query_gradients.h"

namespace volley::cuda::v2 {

struct Grid {
  int blocks;
  int threads;
  int shared;  // bytes
};

// Where kernels go, in order: a stream (sm80_run.cpp), or the emulator (tests).
class Queue {
 public:
  virtual ~Queue() = default;
  virtual core::Status zero(void* data, uint64_t bytes) = 0;
  virtual core::Status pack(const Grid& grid, const PackParams& params) = 0;
  virtual core::Status forward(int row, const Grid& grid, const ForwardParams& params) = 0;
  virtual core::Status delta(Element element, const Grid& grid, const DeltaParams& params) = 0;
  virtual core::Status backward(int row, const Grid& grid, const BackwardParams& params) = 0;
  virtual core::Status write_dq(const Grid& grid, const DqParams& params) = 0;
  virtual core::Status query_gradients(int row, const Grid& grid,
                                       const QueryGradientParams& params) = 0;
  virtual core::Status write_dbias(const Grid& grid, const DbiasParams& params) = 0;
  virtual core::Status sink_gradient(const Grid& grid, const DsinkParams& params) = 0;
};

// A plan's use of its workspace.
class Layout {
 public:
  uint64_t take(uint64_t bytes);  // answers an offset, aligned to 256 bytes
  uint64_t size() const { return size_; }

 private:
  uint64_t size_ = 0;
};

// An operand that is copied into the workspace before the kernel can read it.
struct Packing {
  core::Role role;
  uint64_t offset;    // in the workspace
  PackParams params;  // all but addresses
  Grid grid;
};

// Each operand where the kernels can read it. Addresses are of a run.
class Operands {
 public:
  // The strides at which the kernel finds `role`; plans a copy, of what it cannot read 16 bytes at
  // a time and of what is fp32.
  Operand add(const core::Problem& problem, core::Role role, Layout* layout);
  const std::vector<Packing>& packings() const { return packings_; }

  // Enqueues the copies. `at` then has their addresses.
  core::Status pack(core::Buffers* at, core::Workspace workspace, Queue& queue) const;

 private:
  std::vector<Packing> packings_;
};

Output output_of(const core::Tensor& t);
Strides heads_first(const core::Tensor& t);  // of (b, h, s): lse and its like
int sink_type(const core::Problem& problem);
Extras extras_of(const core::Problem& problem);
void set_addresses(const core::Buffers& at, Extras* extras);
Lengths lengths_of(const core::Problem& problem);
void set_addresses(const core::Buffers& at, Lengths* lengths);

// Blocks for kernels that go round until all is done, at most `most`; max_sms 0: no bound.
int bounded_blocks(i64 blocks, i64 most, int max_sms);

// Blocks of 256 threads for so many elements; each takes several rounds where there are many.
Grid grid_of(i64 elements, int max_sms);

inline int rounded_up(i64 columns) { return static_cast<int>((columns + 7) / 8 * 8); }

}  // namespace volley::cuda::v2
