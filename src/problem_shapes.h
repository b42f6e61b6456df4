// SPDX-License-Identifier: BSD-3-Clause
//
// The steps of make_problem that look at tensors together: sizes, shapes, dtypes, normal forms.
#pragma once

#include "problem.h"

namespace volley::core {

// b, hq, hk, d, dv, max_sq, max_sk, page, packed_q, packed_k, from the operands' shapes. max_sq and
// max_sk hold the caller's bounds (0: none) on entry.
Status resolve_sizes(Problem* problem);

// q, k, v, o, lse, lengths and page table: shapes, dtypes, normal form.
Status normalise_operands(Problem* problem);

// sink, bias, alibi_slopes, mask, descales, dropout.
Status normalise_extras(Problem* problem);

// dout, dlse and the gradients.
Status normalise_gradients(Problem* problem);

// No output of this op has two elements at one address.
Status check_outputs(const Problem& problem);

}  // namespace volley::core
