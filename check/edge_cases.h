// SPDX-License-Identifier: BSD-3-Clause
//
// The edge cases as data: every size, layout, mask and magnitude at which kernels have been seen to
// go wrong, each small enough for the reference.
#pragma once

#include <vector>

#include "case.h"

namespace volley::check {

std::vector<Case> edge_cases(int32_t dtype);

// The same for gradients: those of the forward, and every option of the backward alone and paired.
std::vector<Case> gradient_cases(int32_t dtype);

// The masks of which every boundary is tested: name, band, alignment.
std::vector<Case> mask_cases(int32_t dtype);

}  // namespace volley::check
