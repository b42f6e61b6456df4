// SPDX-License-Identifier: BSD-3-Clause
//
// The reference backend: forward and backward of the whole contract in float64, naive, written for
// reading. Read reference_row.h first, then reference.cpp and reference_backward.cpp.
#pragma once

#include "backend.h"

namespace volley::core {

// The contents of lengths, page table and scales have been checked.
Status reference_forward(const Plan& plan, const Buffers& buffers);
Status reference_backward(const Plan& plan, const Buffers& buffers);

// The longest sequence of a run.
struct Longest {
  int64_t sq = 0;
  int64_t sk = 0;
};
Longest longest_of(const Problem& problem, const Buffers& buffers);

}  // namespace volley::core
