// SPDX-License-Identifier: BSD-3-Clause
//
// Tile: the unit of work of the CPU backend, and all that a kernel is told. A tile is up to
// kTileRows query rows that share one key head; rows of several query heads of a GQA group lie in
// one tile, so that keys and values are unpacked once for all of them. attention.cpp fills tiles,
// kernel/attend.inc.h computes them. Plain data only: this file is compiled for several CPUs.
#pragma once

#include <cstdint>

namespace volley::core {

// A tile of head dim 64 fits any second-level cache. Times are flat around these sizes: 64 or 256
// rows and 128 keys are within 10 % on smollm2_135m_long, in each of the three kernels.
inline constexpr int kTileRows = 128;
inline constexpr int kTileKeys = 64;

// Rows of k or v: element (j, c) is at base + j * row + c * column. In bytes.
struct SourceRows {
  const char* base;
  int64_t row;
  int64_t column;
};

struct Tile {
  // Inputs. `dtype` is that of q, k and v.
  int32_t dtype;
  int64_t d;
  int64_t dv;
  float scale;
  float softcap;  // 0: none
  SourceRows k;   // from the sequence's first key
  SourceRows v;
  int64_t q_column;  // bytes between elements of a row of q

  // Row r of the tile reads q[r] and sees the keys [first[r], last[r]). No row sees any key outside
  // [begin, end), and none of those is read.
  int32_t rows;
  const char* q[kTileRows];
  int64_t first[kTileRows];
  int64_t last[kTileRows];
  int64_t begin;
  int64_t end;

  // The online softmax: m is the largest logit so far, l = sum of exp(logit - m), o = sum of
  // exp(logit - m) * v. attention.cpp sets m and l to what the sink alone gives.
  alignas(64) float m[kTileRows];
  alignas(64) float l[kTileRows];
  float* o;  // (rows, v_stride)

  // Scratch of the thread, 64-byte aligned. Strides are multiples of 16 floats.
  float* q_packed;  // (d, kTileRows): transposed, so that query rows lie in vector lanes
  float* k_packed;  // (kTileKeys, k_stride)
  float* v_packed;  // (kTileKeys, v_stride)
  float* p;         // (kTileKeys, kTileRows): scores, then weights, transposed too
  int64_t k_stride;
  int64_t v_stride;
};

}  // namespace volley::core
