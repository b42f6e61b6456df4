// SPDX-License-Identifier: BSD-3-Clause
//
// From a band of 64-bit bounds to the kernels' 32-bit ones. Plain C++.
#pragma once

#include <algorithm>

#include "cuda/schedule.h"

namespace volley::cuda {

// An offset beyond all rows and keys says what one this large says, and leaves room for sums.
inline int narrow(i64 offset) {
  return static_cast<int>(std::clamp(offset, -2 * kMaxRows, 2 * kMaxRows));
}

// A side of a band. Offsets are at most 2^60 in magnitude: wider than this one is as good as open.
inline i64 bounded(i64 width) { return std::min(width, i64{1} << 61); }

// Query i sees key j iff i + low <= j < i + high; a side of -1 is open.
inline int low_of_band(i64 left, i64 offset) {
  return narrow(left < 0 ? -2 * kMaxRows : offset - bounded(left));
}
inline int high_of_band(i64 right, i64 offset) {
  return narrow(right < 0 ? 2 * kMaxRows : offset + bounded(right) + 1);
}

}  // namespace volley::cuda
