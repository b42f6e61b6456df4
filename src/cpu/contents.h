// SPDX-License-Identifier: BSD-3-Clause
//
// What the CPU backends read before they compute: lengths, page table and scales. A Problem is
// judged by geometry alone (problem.h); here the host looks into the arrays and refuses impossible
// values, so that nothing behind this check can index out of bounds. Read sequence.h next.
#pragma once

#include "backend.h"
#include "problem.h"
#include "sequence.h"
#include "status.h"

namespace volley::core {

// The length arrays of a run.
Lengths lengths_of(const Buffers& buffers);

// OK, or INVALID_ARGUMENT with VOLLEY_REASON_CONTENTS and one sentence: index, found, wanted.
//   cu_seqlens_*   start at 0, do not decrease, end within the rows; no length above max_seqlen
//   seqused_*      from 0 to the rows that the sequence owns
//   page_table     entries of pages that used rows reach: 0 to pages - 1
//   *_descale      entries of blocks that used rows reach: finite and positive
Status check_contents(const Problem& problem, const Buffers& buffers);

}  // namespace volley::core
