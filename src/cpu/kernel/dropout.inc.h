// SPDX-License-Identifier: BSD-3-Clause
//
// Dropout of weights, after their sum was taken: the generator of dropout.h for kLanes rows at
// once.
#pragma once

#include "cpu/kernel/vec.inc.h"
#include "cpu/kernel/visible.inc.h"
#include "cpu/tile.h"

namespace volley::core {
namespace {

using WordVec = hn::Vec<Words>;
using DoubleWords = hn::Repartition<uint64_t, Words>;

// Both halves of the 64-bit products of 32-bit words.
struct Product {
  WordVec high;
  WordVec low;
};

HWY_INLINE Product multiply(WordVec a, uint32_t b) {
  const DoubleWords wide;
  const WordVec factor = hn::Set(kWords, b);
  const WordVec odd_lanes = hn::BitCast(kWords, hn::ShiftRight<32>(hn::BitCast(wide, a)));
  const WordVec even = hn::BitCast(kWords, hn::ShiftRight<32>(hn::MulEven(a, factor)));
  const WordVec odd = hn::BitCast(kWords, hn::MulEven(odd_lanes, factor));
  return {hn::OddEven(odd, even), a * factor};
}

struct PhiloxWords {
  WordVec word[4];
};

HWY_INLINE PhiloxWords philox(const Dropout& dropout, int r, uint32_t key_group) {
  PhiloxWords x{{hn::Set(kWords, key_group), hn::LoadU(kWords, dropout.query + r),
                 hn::Set(kWords, dropout.sequence), hn::LoadU(kWords, dropout.head + r)}};
  uint32_t key[2] = {dropout.key[0], dropout.key[1]};
  for (int round = 0; round < 10; ++round) {
    const Product product0 = multiply(x.word[0], 0xd2511f53u);
    const Product product1 = multiply(x.word[2], 0xcd9e8d57u);
    x = {{product1.high ^ x.word[1] ^ hn::Set(kWords, key[0]), product1.low,
          product0.high ^ x.word[3] ^ hn::Set(kWords, key[1]), product0.low}};
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return x;
}

// keys and the tile's first key, `key`, are multiples of 4.
void drop(const Tile& tile, const Visible& visible, int64_t key, int keys) {
  const Vec keep = splat(tile.dropout.keep);
  const WordVec threshold = hn::Set(kWords, tile.dropout.threshold);
  for (int r = first_block(visible, kLanes); r < visible.last_row; r += kLanes) {
    for (int j = 0; j < keys; j += 4) {
      const PhiloxWords random = philox(tile.dropout, r, static_cast<uint32_t>((key + j) / 4));
      for (int i = 0; i < 4; ++i) {
        float* at = tile.p + (j + i) * kTileRows + r;
        const Mask dropped = hn::RebindMask(kFloats, threshold > random.word[i]);
        store(at, load(at) * hn::IfThenZeroElse(dropped, keep));
      }
    }
  }
}

}  // namespace
}  // namespace volley::core
