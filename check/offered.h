// SPDX-License-Identifier: BSD-3-Clause
//
// What each backend must offer at least, written apart from the library's own table (offers.cpp) so
// that an offer lost there shows. A backend may offer more; its results are then checked.
#pragma once

#include <cstdint>

#include "case.h"

namespace volley::check {

// Must the backend run this call, rather than refuse it?
bool must_offer(int32_t backend, const Instance& instance);

// Can `reason` be why some backend does not offer this call?
bool reason_fits(const Instance& instance, int32_t reason);

}  // namespace volley::check
