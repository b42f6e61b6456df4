// SPDX-License-Identifier: BSD-3-Clause
//
// From fp32 sums to the caller's gradients: any dtype and stride, overwriting or adding, rounded
// once.
#pragma once

#include "backend.h"
#include "cpu/view.h"

namespace volley::core {

// Row (a, b, c) of a gradient of four axes.
void put_row(const View& gradient, bool accumulate, const float* values, int64_t a, int64_t b,
             int64_t c);

void put_element(const View& gradient, bool accumulate, double value, int64_t offset);

// Zeroes dq, dk and dv where rows may belong to no sequence; the others are written anyway.
void clear_unused_rows(const Problem& problem, const Buffers& buffers, int threads);

}  // namespace volley::core
