// SPDX-License-Identifier: BSD-3-Clause
//
// Element types on the host: sizes, names, and exact conversions to and from float. Rounding is to
// nearest even everywhere; NaN stays NaN. Plain integer code: right on every CPU, and compilers
// vectorise it. Formats: IEEE 754 binary16, bfloat16, OCP 8-bit e4m3 (e4m3fn) and OCP e8m0.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "volley/volley.h"

namespace volley::core {

// Bytes an element; 0 for a dtype that the library does not know.
inline int64_t dtype_size(int32_t dtype) {
  switch (dtype) {
    case VOLLEY_I64:
    case VOLLEY_F64: return 8;
    case VOLLEY_I32:
    case VOLLEY_F32: return 4;
    case VOLLEY_F16:
    case VOLLEY_BF16: return 2;
    case VOLLEY_BOOL:
    case VOLLEY_E4M3:
    case VOLLEY_E8M0: return 1;
    default: return 0;
  }
}

inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

inline float f16_to_float(uint16_t half) {
  // The exponent field moves from 5 to 8 bits by a multiplication with 2^112, which is exact and
  // also makes subnormals right; infinities and NaN get their exponent set apart.
  const uint32_t magnitude = uint32_t{half} << 13 & 0x0fffe000u;
  float value = std::bit_cast<float>(magnitude) * 0x1p112f;
  if ((half & 0x7c00u) == 0x7c00u) value = std::bit_cast<float>(magnitude | 0x7f800000u);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | uint32_t{half & 0x8000u} << 16);
}

inline uint16_t float_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;              // NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;             // rounds to infinity
  if (magnitude < 0x38800000u) {                                   // subnormal or zero:
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;  // ulp(0.5) = 2^-24
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(aligned) - 0x3f000000u);
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}

inline float e4m3_to_float(uint8_t bits) {
  if ((bits & 0x7fu) == 0x7fu) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = std::bit_cast<float>(uint32_t{bits & 0x7fu} << 20) * 0x1p120f;
  return bits & 0x80u ? -magnitude : magnitude;
}

// Saturates to +-448, as the hardware's satfinite conversion does.
inline uint8_t float_to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80u);
  if (magnitude > 0x7f800000u) return 0x7fu;
  if (magnitude >= 0x43e00000u) return sign | 0x7eu;  // >= 448
  if (magnitude < 0x3c800000u) {                      // below 2^-6: subnormal, step 2^-9
    const float aligned = std::bit_cast<float>(magnitude) + 0x1p14f;  // ulp(2^14) = 2^-9
    return sign | static_cast<uint8_t>(std::bit_cast<uint32_t>(aligned) - 0x46800000u);
  }
  const uint32_t rounded = magnitude + 0x7ffffu + (magnitude >> 20 & 1u);
  return sign | static_cast<uint8_t>((rounded - 0x3c000000u) >> 20);
}

inline float e8m0_to_float(uint8_t bits) {
  if (bits == 0xff) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0f, static_cast<int>(bits) - 127);
}

// A double rounded once to float's precision in a way that a second rounding to 16 bits cannot
// notice (round to odd), so that double -> bf16 is correctly rounded.
inline float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || !std::isfinite(nearest)) return nearest;
  const uint32_t bits = std::bit_cast<uint32_t>(nearest);
  const bool away = std::abs(static_cast<double>(nearest)) > std::abs(value);
  return std::bit_cast<float>((away ? bits - 1 : bits) | 1u);
}

// Element `index` of an array of `dtype`, as double. Exact for every dtype but large I64.
inline double load_element(int32_t dtype, const void* base, int64_t index) {
  const auto at = [&]<class T>(T) {
    T value;
    std::memcpy(&value, static_cast<const char*>(base) + index * int64_t{sizeof(T)}, sizeof(T));
    return value;
  };
  switch (dtype) {
    case VOLLEY_F64: return at(double{});
    case VOLLEY_F32: return at(float{});
    case VOLLEY_F16: return f16_to_float(at(uint16_t{}));
    case VOLLEY_BF16: return bf16_to_float(at(uint16_t{}));
    case VOLLEY_E4M3: return e4m3_to_float(at(uint8_t{}));
    case VOLLEY_E8M0: return e8m0_to_float(at(uint8_t{}));
    case VOLLEY_BOOL: return at(uint8_t{}) != 0;
    case VOLLEY_I32: return at(int32_t{});
    case VOLLEY_I64: return static_cast<double>(at(int64_t{}));
    default: return std::numeric_limits<double>::quiet_NaN();
  }
}

// Rounds `value` once to a floating dtype and stores it.
inline void store_element(int32_t dtype, void* base, int64_t index, double value) {
  const auto put = [&]<class T>(T element) {
    std::memcpy(static_cast<char*>(base) + index * int64_t{sizeof(T)}, &element, sizeof(T));
  };
  switch (dtype) {
    case VOLLEY_F64: put(value); break;
    case VOLLEY_F32: put(static_cast<float>(value)); break;
    case VOLLEY_F16: put(float_to_f16(round_to_odd(value))); break;
    case VOLLEY_BF16: put(float_to_bf16(round_to_odd(value))); break;
    case VOLLEY_E4M3: put(float_to_e4m3(round_to_odd(value))); break;
    default: break;
  }
}

}  // namespace volley::core
