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

struct F32 {
  using Bits = UVec;
  static constexpr int kBytes = 4;
  [[gnu::always_inline]] static Vec decode(UVec bits) { return bits_as<Vec>(bits); }
};

struct Bf16 {
  using Bits = HalfVec;
  static constexpr int kBytes = 2;
  [[gnu::always_inline]] static Vec decode(HalfVec bits) {
    return bits_as<Vec>(__builtin_convertvector(bits, UVec) << 16);
  }
};

struct F16 {
  using Bits = HalfVec;
  static constexpr int kBytes = 2;
  // As f16_to_float in dtype.h.
  [[gnu::always_inline]] static Vec decode(HalfVec half) {
    const UVec bits = __builtin_convertvector(half, UVec);
    const UVec magnitude = (bits & 0x7fff) << 13;
    const Vec finite = bits_as<Vec>(magnitude) * 0x1p112f;
    const UVec special = magnitude | 0x7f800000;
    const UVec value = (bits & 0x7c00) == 0x7c00 ? special : bits_as<UVec>(finite);
    return bits_as<Vec>(value | (bits & 0x8000) << 16);
  }
};

// The next n <= kLanes elements, the other lanes 0.
template <class Element>
[[gnu::always_inline]] inline Vec load_elements(const char* from, int64_t column, int64_t n) {
  typename Element::Bits bits{};
  if (column == Element::kBytes && n >= kLanes) {
    bits = load<typename Element::Bits>(from);
  } else {
    char* to = reinterpret_cast<char*>(&bits);
    for (int64_t i = 0; i < n && i < kLanes; ++i) {
      __builtin_memcpy(to + i * Element::kBytes, from + i * column, Element::kBytes);
    }
  }
  return Element::decode(bits);
}

[[gnu::always_inline]] inline IVec not_finite(Vec x) {
  return (bits_as<IVec>(x) & 0x7f800000) == 0x7f800000;
}

// Rows are short and far apart, too far for the hardware's prefetcher: asking for them this early
// halves the time of one query over 16384 keys. Asking beyond the end does no harm.
constexpr int kRowsAhead = 16;

// Packs `rows` rows of n elements; rows up to the next multiple of 4 become 0. Returns whether all
// elements were finite; with drop_special those that are not become 0 too.
template <class Element, bool drop_special>
bool pack_rows(const SourceRows& source, int64_t first, int rows, int64_t n, int64_t stride,
               float* packed) {
  IVec special{};
  for (int j = 0; j < rows; ++j) {
    const char* from = source.base + (first + j) * source.row;
    float* to = packed + j * stride;
    for (int64_t c = 0; c < n; c += kLanes) {
      __builtin_prefetch(from + kRowsAhead * source.row + c * source.column);
      Vec x = load_elements<Element>(from + c * source.column, source.column, n - c);
      if (drop_special) {
        const IVec here = not_finite(x);
        special |= here;
        x = here ? Vec{} : x;
      }
      store(to + c, x);
    }
  }
  for (int j = rows; j % 4 != 0; ++j) {
    for (int64_t c = 0; c < n; c += kLanes) store(packed + j * stride + c, Vec{});
  }
  int32_t any = 0;
  for (int lane = 0; lane < kLanes; ++lane) any |= special[lane];
  return any == 0;
}

// Rows that see no key are not read; they and those up to the next multiple of kLanes become 0.
template <class Element>
void pack_queries(const Tile& tile) {
  for (int r = 0; r < (tile.rows + kLanes - 1) / kLanes * kLanes; ++r) {
    const bool used = r < tile.rows && tile.first[r] < tile.last[r];
    for (int64_t c = 0; c < tile.d; c += kLanes) {
      Vec x{};
      if (used) {
        x = load_elements<Element>(tile.q[r] + c * tile.q_column, tile.q_column, tile.d - c);
      }
      for (int lane = 0; lane < kLanes && c + lane < tile.d; ++lane) {
        tile.q_packed[(c + lane) * kTileRows + r] = x[lane];
      }
    }
  }
}

}  // namespace
}  // namespace volley::core
