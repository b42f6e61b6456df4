// SPDX-License-Identifier: BSD-3-Clause
//
// Which keys of a key tile the band grants to each row.
#pragma once

#include "cpu/kernel/vec.inc.h"
#include "cpu/tile.h"

namespace volley::core {
namespace {

// The visible keys [first, last) of each row, relative to the key tile.
struct Visible {
  alignas(64) int32_t first[kTileRows];
  alignas(64) int32_t last[kTileRows];
  bool all;       // every row sees every key
  int first_row;  // rows outside [first_row, last_row) see none of these keys
  int last_row;
};

// `packed` keys: the `keys` of this key tile rounded up to 4.
void set_visible(const Tile& tile, int64_t key, int keys, int packed, Visible* visible) {
  const auto relative = [&](int64_t at) {
    return static_cast<int32_t>(at < key ? 0 : at - key < keys ? at - key : keys);
  };
  visible->all = true;
  visible->first_row = visible->last_row = 0;
  for (int r = 0; r < kTileRows; ++r) {
    const bool used = r < tile.rows;
    visible->first[r] = used ? relative(tile.first[r]) : 0;
    visible->last[r] = used ? relative(tile.last[r]) : 0;
    if (used && (visible->first[r] > 0 || visible->last[r] < packed)) visible->all = false;
    if (visible->first[r] >= visible->last[r]) continue;
    if (visible->last_row == 0) visible->first_row = r;
    visible->last_row = r + 1;
  }
}

// The first row of the block of `rows` rows that the first row with a key lies in.
int first_block(const Visible& visible, int rows) { return visible.first_row / rows * rows; }

}  // namespace
}  // namespace volley::core
