// SPDX-License-Identifier: BSD-3-Clause
//
// From the user's tensors to packed fp32: any dtype, stride and alignment goes in, contiguous rows
// (k, v) or contiguous columns (q) come out, and from there on nothing depends on the layout.
#pragma once

#include "cpu/kernel/vec.inc.h"
#include "cpu/tile.h"
#include "volley/volley.h"

namespace volley::core {
namespace {

// An element type: its bits in memory, and what they mean.
struct F32 {
  using Bits = uint32_t;
  HWY_INLINE static Vec decode(hn::Vec<Words> bits) { return hn::BitCast(kFloats, bits); }
};

struct Bf16 {
  using Bits = uint16_t;
  HWY_INLINE static Vec decode(hn::Vec<Words> bits) {
    return hn::BitCast(kFloats, hn::ShiftLeft<16>(bits));
  }
};

struct F16 {
  using Bits = uint16_t;
  // As f16_to_float in dtype.h.
  HWY_INLINE static Vec decode(hn::Vec<Words> bits) {
    const auto exponent = hn::Set(kWords, 0x7c00);
    const auto magnitude = hn::ShiftLeft<13>(bits & hn::Set(kWords, 0x7fff));
    const auto finite = hn::BitCast(kFloats, magnitude) * splat(0x1p112f);
    const auto special = magnitude | hn::Set(kWords, 0x7f800000);
    const auto value =
        hn::IfThenElse((bits & exponent) == exponent, special, hn::BitCast(kWords, finite));
    const auto sign = hn::ShiftLeft<16>(bits & hn::Set(kWords, 0x8000));
    return hn::BitCast(kFloats, value | sign);
  }
};

template <class Bits>
HWY_INLINE hn::Vec<Words> widen(const Bits* from) {
  if constexpr (sizeof(Bits) == 4) {
    return hn::LoadU(kWords, from);
  } else {
    const hn::Rebind<Bits, Floats> narrow;
    return hn::PromoteTo(kWords, hn::LoadU(narrow, from));
  }
}

// The next n <= kLanes elements, the other lanes 0.
template <class Element>
HWY_INLINE Vec load_elements(const char* from, int64_t column, int64_t n) {
  using Bits = typename Element::Bits;
  constexpr auto kBytes = int64_t{sizeof(Bits)};
  Bits bits[kLanes] = {};
  if (column == kBytes && n >= kLanes) {
    __builtin_memcpy(bits, from, sizeof bits);
  } else {
    for (int64_t i = 0; i < n && i < kLanes; ++i) {
      __builtin_memcpy(bits + i, from + i * column, sizeof(Bits));
    }
  }
  return Element::decode(widen(bits));
}

HWY_INLINE Mask not_finite(Vec x) { return hn::Not(hn::IsFinite(x)); }

// Rows are short and far apart, too far for the hardware's prefetcher: asking for them this early
// halves the time of one query over 16384 keys. Asking beyond the end does no harm.
constexpr int kRowsAhead = 16;

// Packs `rows` rows of n elements; rows up to the next multiple of 4 become 0. Returns whether all
// elements were finite; with drop_special those that are not become 0 too.
template <class Element, bool drop_special>
bool pack_rows(const SourceRows& source, int64_t first, int rows, int64_t n, int64_t stride,
               float* packed) {
  bool finite = true;
  for (int j = 0; j < rows; ++j) {
    const char* from = source.base + (first + j) * source.row;
    float* to = packed + j * stride;
    for (int64_t c = 0; c < n; c += kLanes) {
      __builtin_prefetch(from + kRowsAhead * source.row + c * source.column);
      Vec x = load_elements<Element>(from + c * source.column, source.column, n - c);
      if (drop_special) {
        const Mask special = not_finite(x);
        finite = finite && hn::AllFalse(kFloats, special);
        x = hn::IfThenZeroElse(special, x);
      }
      store(to + c, x);
    }
  }
  for (int j = rows; j % 4 != 0; ++j) {
    for (int64_t c = 0; c < n; c += kLanes) store(packed + j * stride + c, zero());
  }
  return finite;
}

// Rows that see no key are not read; they and those up to the next multiple of kLanes become 0.
template <class Element>
void pack_queries(const Tile& tile) {
  for (int r = 0; r < (tile.rows + kLanes - 1) / kLanes * kLanes; ++r) {
    const bool used = r < tile.rows && tile.first[r] < tile.last[r];
    for (int64_t c = 0; c < tile.d; c += kLanes) {
      float x[kLanes] = {};
      if (used) {
        const char* from = tile.q[r] + c * tile.q_column;
        store(x, load_elements<Element>(from, tile.q_column, tile.d - c));
      }
      for (int lane = 0; lane < kLanes && c + lane < tile.d; ++lane) {
        tile.q_packed[(c + lane) * kTileRows + r] = x[lane];
      }
    }
  }
}

}  // namespace
}  // namespace volley::core
