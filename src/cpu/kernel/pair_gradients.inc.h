// SPDX-License-Identifier: BSD-3-Clause
//
// What happens to each pair of query and key between the products of the backward:
//
//   P = exp(logit - lse),  dS = P (keep dP + shift),  then P keep in p and dS slope in dp
//
// Query rows lie in the lanes, as in the forward. A pair that is not seen has P = dS = 0, whatever
// its score.
#pragma once

#include "cpu/gradient_tile.h"
#include "cpu/kernel/dropout.inc.h"
#include "cpu/kernel/math.inc.h"
#include "cpu/kernel/visible.inc.h"

namespace volley::core {
namespace {

// d logit / d score of a softcap, from the scores before it.
void softcap_slope(const GradientTile& tile, int keys) {
  const Vec one = splat(1);
  for (int64_t i = 0; i < int64_t{keys} * kTileRows; i += kLanes) {
    const Vec t = tanh(load(tile.pairs.p + i) / splat(tile.pairs.softcap));
    store(tile.slope + i, hn::NegMulAdd(t, t, one));
  }
}

// The pairs of key j with kLanes rows from r on.
template <bool with_slope>
HWY_INLINE void gradients_of_pairs(const GradientTile& tile, const Visible& visible, int j, int r,
                                   Vec keep) {
  float* p = tile.pairs.p + j * kTileRows + r;
  float* dp = tile.dp + j * kGradientStride + r;
  const auto key = hn::Set(kInts, j);
  const auto first = hn::LoadU(kInts, visible.first + r);
  const auto last = hn::LoadU(kInts, visible.last + r);
  const Mask seen = hn::RebindMask(kFloats, hn::AndNot(first > key, last > key));
  const Vec weight = hn::IfThenElseZero(seen, exp(load(p) - load(tile.lse + r)));
  const Vec ds = weight * hn::MulAdd(keep, load(dp), load(tile.shift + r));
  const Vec guarded = hn::IfThenZeroElse(weight == zero(), ds);
  store(p, weight * keep);
  if (!with_slope) return store(dp, guarded);
  Vec slope = splat(tile.pairs.scale);
  if (tile.pairs.softcap > 0) slope = slope * load(tile.slope + j * kTileRows + r);
  store(dp, guarded * slope);
}

// Rows [begin, end), whole vectors. Without slope, dp keeps dS: the gradient of the logits.
template <bool with_slope>
void pair_gradients(const GradientTile& tile, const Visible& visible, int64_t key, int keys,
                    int begin, int end) {
  const Dropout& dropout = tile.pairs.dropout;
  if (!dropout.present) {
    for (int j = 0; j < keys; ++j) {
      for (int r = begin; r < end; r += kLanes) {
        gradients_of_pairs<with_slope>(tile, visible, j, r, splat(1));
      }
    }
    return;
  }
  const Vec scaled = splat(dropout.keep);
  const auto threshold = hn::Set(kWords, dropout.threshold);
  for (int j = 0; j < keys; j += 4) {
    for (int r = begin; r < end; r += kLanes) {
      const PhiloxWords random = philox(dropout, r, static_cast<uint32_t>((key + j) / 4));
      for (int i = 0; i < 4; ++i) {
        const Mask dropped = hn::RebindMask(kFloats, threshold > random.word[i]);
        gradients_of_pairs<with_slope>(tile, visible, j + i, r,
                                       hn::IfThenZeroElse(dropped, scaled));
      }
    }
  }
}

}  // namespace
}  // namespace volley::core
