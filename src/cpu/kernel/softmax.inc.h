// SPDX-License-Identifier: BSD-3-Clause
//
// One step of the online softmax: logits of a tile become weights exp(logit - m), m and l move on.
// Query rows lie in the lanes, so nothing here crosses lanes.
//
// A key that a row does not see has the logit -inf and so the weight 0, real -inf and no stand-in.
// A NaN logit may lose against m but not in exp: the weight, l and with it the row become NaN.
#pragma once

#include "cpu/kernel/math.inc.h"
#include "cpu/kernel/visible.inc.h"
#include "cpu/tile.h"

namespace volley::core {
namespace {

// Applies the band to the logits of kLanes rows and returns their maximum.
template <bool all_visible>
HWY_INLINE Vec largest_logits(const Tile& tile, const Visible& visible, int keys, int r,
                              Vec largest) {
  const auto first = hn::LoadU(kInts, visible.first + r);
  const auto last = hn::LoadU(kInts, visible.last + r);
  for (int j = 0; j < keys; ++j) {
    float* at = tile.p + j * kTileRows + r;
    Vec x = load(at);
    if (!all_visible) {
      const auto key = hn::Set(kInts, j);
      const Mask seen = hn::RebindMask(kFloats, hn::AndNot(first > key, last > key));
      x = hn::IfThenElse(seen, x, splat(-kInfinity));
      store(at, x);
    }
    largest = hn::Max(x, largest);
  }
  return largest;
}

// The logits of r's rows that are -inf: where `unseen` is wanted, 1 for each.
HWY_INLINE void note_unseen(const Tile& tile, int keys, int r, float* unseen) {
  for (int j = 0; j < keys; ++j) {
    const Mask mask = load(tile.p + j * kTileRows + r) == splat(-kInfinity);
    store(unseen + j * kTileRows + r, hn::IfThenElseZero(mask, splat(1)));
  }
}

// Writes alpha, by which what was summed before must shrink. unseen: NULL, or (keys, kTileRows).
void softmax(Tile* tile, const Visible& visible, int keys, float* alpha, float* unseen) {
  for (int r = first_block(visible, kLanes); r < visible.last_row; r += kLanes) {
    const Vec before = load(tile->m + r);
    const Vec m = visible.all ? largest_logits<true>(*tile, visible, keys, r, before)
                              : largest_logits<false>(*tile, visible, keys, r, before);
    if (unseen != nullptr) note_unseen(*tile, keys, r, unseen);
    // A row that has seen nothing yet has m = -inf, from which nothing can be subtracted.
    const Vec base = hn::IfThenZeroElse(m == splat(-kInfinity), m);
    Vec sum = zero();
    for (int j = 0; j < keys; ++j) {
      float* at = tile->p + j * kTileRows + r;
      const Vec weight = exp(load(at) - base);
      sum = sum + weight;
      store(at, weight);
    }
    const Vec shrink = exp(before - base);
    store(tile->m + r, m);
    store(tile->l + r, hn::MulAdd(load(tile->l + r), shrink, sum));
    store(alpha + r, shrink);
  }
}

}  // namespace
}  // namespace volley::core
