// SPDX-License-Identifier: BSD-3-Clause
//
// The kernel of the CPU backend: FlashAttention's loop over key tiles for one tile of queries.
// Included by one .cpp per instruction set. Reading order: this file, pack, product, logits,
// softmax, math, dropout.
//
// Key tiles begin at multiples of kTileKeys from the sequence's first key, and a key tile that a
// row does not see leaves its sums as they are: a row's result depends on nothing but its own
// inputs.
#pragma once

#include "cpu/kernel/dropout.inc.h"
#include "cpu/kernel/kernel.h"
#include "cpu/kernel/logits.inc.h"
#include "cpu/kernel/pack.inc.h"
#include "cpu/kernel/product.inc.h"
#include "cpu/kernel/softmax.inc.h"

namespace volley::core {
namespace {

// The weight 0 of an unseen key would still make NaN of a NaN or infinite value, so such values are
// packed as 0 and added here, to the rows that do see them. Rare, hence plain.
template <class Element>
void add_special_values(const Tile& tile, const Visible& visible, const float* unseen, int64_t key,
                        int keys) {
  for (int j = 0; j < keys; ++j) {
    const Row row = row_at<Element>(tile.v, key + j);
    for (int64_t c = 0; c < tile.dv; ++c) {
      const Vec value = load_row<Element>(row, tile.v.column, c, 1);
      if (hn::AllFalse(kFloats, not_finite(value))) continue;
      const float special = hn::GetLane(value);
      for (int r = visible.first_row; r < visible.last_row; ++r) {
        if (unseen[j * kTileRows + r] != 0) continue;
        tile.o[r * tile.v_stride + c] += tile.p[j * kTileRows + r] * special;
      }
    }
  }
}

template <class Element>
void attend_as(Tile* tile) {
  const int64_t rows = (tile->rows + 3) / 4 * 4;
  for (int64_t i = 0; i < rows * tile->v_stride; i += kLanes) store(tile->o + i, zero());
  if (tile->begin >= tile->end) return;
  pack_queries<Element>(*tile);

  Visible visible;
  alignas(64) float alpha[kTileRows] = {};
  alignas(64) float unseen[kTileKeys * kTileRows];  // filled where v is not finite
  for (int64_t key = tile->begin - tile->begin % kTileKeys; key < tile->end; key += kTileKeys) {
    const int64_t left = tile->end - key;
    const int keys = left < kTileKeys ? static_cast<int>(left) : kTileKeys;
    const int packed = (keys + 3) / 4 * 4;
    pack_rows<Element, false>(tile->k, key, keys, tile->d, tile->k_stride, tile->k_packed);
    const bool finite =
        pack_rows<Element, true>(tile->v, key, keys, tile->dv, tile->v_stride, tile->v_packed);
    set_visible(*tile, key, keys, packed, &visible);
    score(*tile, visible, packed);
    logits(*tile, visible, key, packed);
    softmax(tile, visible, packed, alpha, finite ? nullptr : unseen);
    if (tile->dropout.present) drop(*tile, visible, key, packed);
    accumulate(*tile, visible, alpha, packed);
    if (!finite) add_special_values<Element>(*tile, visible, unseen, key, keys);
  }
}

void attend(Tile* tile) {
  switch (tile->dtype) {
    case VOLLEY_F32: return attend_as<F32>(tile);
    case VOLLEY_F16: return attend_as<F16>(tile);
    case VOLLEY_E4M3: return attend_as<E4m3>(tile);
    default: return attend_as<Bf16>(tile);
  }
}

// n is a multiple of 16.
void exp_in_place(float* x, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) store(x + i, exp(load(x + i)));
}

void tanh_in_place(float* x, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) store(x + i, tanh(load(x + i)));
}

}  // namespace
}  // namespace volley::core
