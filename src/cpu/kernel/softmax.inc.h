// SPDX-License-Identifier: BSD-3-Clause
//
// One step of the online softmax: scores of a tile become weights exp(logit - m), m and l move on.
// Query rows lie in the lanes, so nothing here crosses lanes.
//
// A key that a row does not see has the logit -inf and so the weight 0, real -inf and no stand-in.
// A NaN logit loses against m but not in exp: the weight, l and with it the row become NaN.
#pragma once

#include "cpu/kernel/math.inc.h"
#include "cpu/tile.h"

namespace volley::core {
namespace {

// The visible keys [first, last) of each row, relative to the key tile.
struct Visible {
  alignas(64) int32_t first[kTileRows];
  alignas(64) int32_t last[kTileRows];
  bool all;  // every row sees every key
};

// `packed` keys: the `keys` of this key tile rounded up to 4.
void set_visible(const Tile& tile, int64_t key, int keys, int packed, Visible* visible) {
  const auto relative = [&](int64_t at) {
    return static_cast<int32_t>(at < key ? 0 : at - key < keys ? at - key : keys);
  };
  visible->all = true;
  for (int r = 0; r < kTileRows; ++r) {
    const bool used = r < tile.rows;
    visible->first[r] = used ? relative(tile.first[r]) : 0;
    visible->last[r] = used ? relative(tile.last[r]) : 0;
    if (used && (visible->first[r] > 0 || visible->last[r] < packed)) visible->all = false;
  }
}

// Turns the scores of kLanes rows into masked logits and returns their maximum.
template <bool capped, bool masked>
HWY_INLINE Vec logits(const Tile& tile, const Visible& visible, int keys, int r, Vec largest) {
  const auto first = hn::LoadU(kInts, visible.first + r);
  const auto last = hn::LoadU(kInts, visible.last + r);
  const Vec cap = splat(tile.softcap);
  for (int j = 0; j < keys; ++j) {
    float* at = tile.p + j * kTileRows + r;
    Vec x = load(at);
    if (capped) x = cap * tanh(x / cap);
    if (masked) {
      const auto key = hn::Set(kInts, j);
      const Mask seen = hn::RebindMask(kFloats, hn::AndNot(first > key, last > key));
      x = hn::IfThenElse(seen, x, splat(-kInfinity));
    }
    if (capped || masked) store(at, x);
    largest = hn::Max(x, largest);
  }
  return largest;
}

// Writes alpha, by which what was summed before must shrink.
void softmax(Tile* tile, const Visible& visible, int keys, float* alpha) {
  const auto largest_logits = tile->softcap == 0
                                  ? (visible.all ? logits<false, false> : logits<false, true>)
                                  : (visible.all ? logits<true, false> : logits<true, true>);
  for (int r = 0; r < tile->rows; r += kLanes) {
    const Vec before = load(tile->m + r);
    const Vec m = largest_logits(*tile, visible, keys, r, before);
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
