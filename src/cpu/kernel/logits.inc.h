// SPDX-License-Identifier: BSD-3-Clause
//
// From scores to logits: softcap, ALiBi, bias, boolean mask, in that order, each where the problem
// has it. The band is left to softmax.inc.h, which sees every score anyway.
//
// A pair that bias or mask hide gets the logit -inf by choice and not by arithmetic, so that
// nothing of its key is used.
#pragma once

#include "cpu/kernel/math.inc.h"
#include "cpu/kernel/pack.inc.h"
#include "cpu/kernel/visible.inc.h"
#include "cpu/tile.h"

namespace volley::core {
namespace {

void cap(const Tile& tile, const Visible& visible, int keys) {
  const Vec softcap = splat(tile.softcap);
  for (int j = 0; j < keys; ++j) {
    for (int r = first_block(visible, kLanes); r < visible.last_row; r += kLanes) {
      float* at = tile.p + j * kTileRows + r;
      store(at, softcap * tanh(load(at) / softcap));
    }
  }
}

void add_alibi(const Tile& tile, const Visible& visible, int64_t key, int keys) {
  for (int r = first_block(visible, kLanes); r < visible.last_row; r += kLanes) {
    float diagonal[kLanes];  // from the key tile's first key: the difference is exact
    for (int lane = 0; lane < kLanes; ++lane) {
      diagonal[lane] = static_cast<float>(tile.alibi.diagonal[r + lane] - key);
    }
    const Vec slope = load(tile.alibi.slope + r);
    for (int j = 0; j < keys; ++j) {
      float* at = tile.p + j * kTileRows + r;
      const Vec distance = hn::Abs(load(diagonal) - splat(static_cast<float>(j)));
      store(at, hn::NegMulAdd(slope, distance, load(at)));
    }
  }
}

// score = change(score, value) for the pairs that the band grants.
template <class Element, class Change>
HWY_INLINE void change_pairs(const Tile& tile, const PairValues& values, const Visible& visible,
                             int64_t key, const Change& change) {
  for (int r = visible.first_row; r < visible.last_row; ++r) {
    for (int j = visible.first[r]; j < visible.last[r]; j += kLanes) {
      const int n = visible.last[r] - j < kLanes ? visible.last[r] - j : kLanes;
      float value[kLanes];
      store(value,
            load_elements<Element>(values.row[r] + (key + j) * values.column, values.column, n));
      float* score = tile.p + j * kTileRows + r;
      for (int i = 0; i < n; ++i) {
        score[i * kTileRows] = change(score[i * kTileRows], value[i]);
      }
    }
  }
}

template <class Element>
void add_bias(const Tile& tile, const Visible& visible, int64_t key) {
  change_pairs<Element>(tile, tile.bias, visible, key, [](float score, float bias) {
    return bias == -kInfinity ? -kInfinity : score + bias;
  });
}

void apply_mask(const Tile& tile, const Visible& visible, int64_t key) {
  change_pairs<Bool>(tile, tile.mask, visible, key,
                     [](float score, float seen) { return seen == 0 ? -kInfinity : score; });
}

void logits(const Tile& tile, const Visible& visible, int64_t key, int keys) {
  if (tile.softcap > 0) cap(tile, visible, keys);
  if (tile.alibi.present) add_alibi(tile, visible, key, keys);
  if (tile.bias.present) {
    switch (tile.bias.dtype) {
      case VOLLEY_F32: add_bias<F32>(tile, visible, key); break;
      case VOLLEY_F16: add_bias<F16>(tile, visible, key); break;
      default: add_bias<Bf16>(tile, visible, key); break;
    }
  }
  if (tile.mask.present) apply_mask(tile, visible, key);
}

}  // namespace
}  // namespace volley::core
