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

struct E4m3 {
  using Bits = uint8_t;
  // As e4m3_to_float in dtype.h.
  HWY_INLINE static Vec decode(hn::Vec<Words> bits) {
    const auto nan = hn::Set(kWords, 0x7f);
    const auto magnitude = bits & nan;
    const Vec finite = hn::BitCast(kFloats, hn::ShiftLeft<20>(magnitude)) * splat(0x1p120f);
    const auto value =
        hn::IfThenElse(magnitude == nan, hn::Set(kWords, 0x7fc00000), hn::BitCast(kWords, finite));
    const auto sign = hn::ShiftLeft<24>(bits & hn::Set(kWords, 0x80));
    return hn::BitCast(kFloats, value | sign);
  }
};

struct Bool {
  using Bits = uint8_t;
  HWY_INLINE static Vec decode(hn::Vec<Words> bits) {
    return hn::ConvertTo(kFloats, hn::BitCast(kInts, bits));
  }
};

// Only e4m3 has scales.
template <class Element>
constexpr bool kScaled = sizeof(typename Element::Bits) == 1;

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
// halves the time of one query over 16384 keys. Asking beyond the end does no harm, nor does asking
// for what follows a page in memory.
constexpr int kRowsAhead = 16;

// The row of a key, and its scale.
struct Row {
  const char* from;
  float scale;
};

HWY_INLINE float scale_at(const Scales& scales, int64_t page, int64_t row) {
  if (scales.base == nullptr) return 1;
  const char* at = scales.base + page * scales.page + row / scales.block * scales.stride;
  float scale;
  if (scales.dtype == VOLLEY_F32) {
    __builtin_memcpy(&scale, at, sizeof scale);
  } else {  // e8m0, 2^(x - 127): the exponent of a float, but for 2^-127
    const auto exponent = static_cast<unsigned char>(*at);
    const uint32_t bits = exponent == 0 ? 1u << 22 : uint32_t{exponent} << 23;
    __builtin_memcpy(&scale, &bits, sizeof scale);
  }
  return scale;
}

template <class Element>
HWY_INLINE Row row_at(const SourceRows& source, int64_t key) {
  int64_t page = 0;
  if (source.page_rows > 0) {
    page = source.table[key / source.page_rows * source.table_stride];
    key %= source.page_rows;
  }
  return {source.base + page * source.page + key * source.row,
          kScaled<Element> ? scale_at(source.scales, page, key) : 1};
}

// The next n <= kLanes elements of a row from column c on, scaled.
template <class Element>
HWY_INLINE Vec load_row(const Row& row, int64_t column, int64_t c, int64_t n) {
  const Vec x = load_elements<Element>(row.from + c * column, column, n);
  return kScaled<Element> ? x * splat(row.scale) : x;
}

// Packs `rows` rows of n elements; rows up to the next multiple of 4 become 0. Returns whether all
// elements were finite; with drop_special those that are not become 0 too.
template <class Element, bool drop_special>
bool pack_rows(const SourceRows& source, int64_t first, int rows, int64_t n, int64_t stride,
               float* packed) {
  bool finite = true;
  for (int j = 0; j < rows; ++j) {
    const Row row = row_at<Element>(source, first + j);
    float* to = packed + j * stride;
    for (int64_t c = 0; c < n; c += kLanes) {
      __builtin_prefetch(row.from + kRowsAhead * source.row + c * source.column);
      Vec x = load_row<Element>(row, source.column, c, n - c);
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
    const Row row{used ? tile.q[r] : nullptr, used ? tile.q_scale[r] : 1};
    for (int64_t c = 0; c < tile.d; c += kLanes) {
      float x[kLanes] = {};
      if (used) store(x, load_row<Element>(row, tile.q_column, c, tile.d - c));
      for (int lane = 0; lane < kLanes && c + lane < tile.d; ++lane) {
        tile.q_packed[(c + lane) * kTileRows + r] = x[lane];
      }
    }
  }
}

}  // namespace
}  // namespace volley::core
