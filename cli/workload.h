// SPDX-License-Identifier: BSD-3-Clause
//
// Memory for a call that flags describe, filled with values such as a model has: normal operands,
// full lengths, pages in a random order. For `volley bench`.
#pragma once

#include "device_tensors.h"
#include "geometry.h"

namespace volley::cli {

// Outputs hold NaN.
Tensors make_tensors(const Geometry& geometry);

// Queries times heads times the keys that each of them sees, halved where the mask is causal and
// lengths are equal, as results/ counts.
double counted_pairs(const GeometryFlags& flags, const volley_problem& options);

// "plain", or what makes the call another: "window 4096, varlen".
std::string variant_of(const GeometryFlags& flags, const volley_problem& options);

}  // namespace volley::cli
