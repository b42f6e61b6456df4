// SPDX-License-Identifier: BSD-3-Clause
//
// The end of a tile: o / l becomes O in the user's dtype and layout, m + log(l) becomes LSE.
#pragma once

#include "cpu/work.h"

namespace volley::core {

void write_tile(const Problem& problem, const Buffers& buffers, const Work& work,
                const TilePlace& place, const Tile& tile);

}  // namespace volley::core
