// SPDX-License-Identifier: BSD-3-Clause
//
// Tile: the unit of work of the CPU backend, and all that a kernel is told. A tile is up to
// kTileRows query rows that share one key head; rows of several query heads of a GQA group lie in
// one tile, so that keys and values are unpacked once for all of them. work.cpp fills tiles,
// kernel/attend.inc.h computes them. Plain data only: this file is compiled for several CPUs.
#pragma once

#include <cstdint>

namespace volley::core {

// A tile of head dim 64 fits any second-level cache. Times are flat around these sizes: 64 or 256
// rows and 128 keys are within 10 % on smollm2_135m_long, in each of the three kernels.
inline constexpr int kTileRows = 128;
inline constexpr int kTileKeys = 64;

// What e4m3 rows count times: row r of a sequence, or of a page, has the scale at
// base + r / block * stride. Strides are in bytes, here and below.
struct Scales {
  const char* base;  // NULL: 1
  int32_t dtype;
  int64_t block;
  int64_t stride;
  int64_t page;  // from page to page
};

// Rows of k or v: element (j, c) is at base + j * row + c * column; with pages, key j is row
// j % page_rows of the page that lies at base + table[j / page_rows * table_stride] * page.
struct SourceRows {
  const char* base;
  int64_t row;
  int64_t column;
  int64_t page_rows;  // 0: not paged
  const int32_t* table;
  int64_t table_stride;  // in entries
  int64_t page;
  Scales scales;
};

// A value for each query row and key, bias or mask: that of key j is at row[r] + j * column.
struct PairValues {
  bool present;
  int32_t dtype;
  int64_t column;
  const char* row[kTileRows];
};

// Minus slope[r] * |diagonal[r] - j|.
struct Alibi {
  bool present;
  alignas(64) float slope[kTileRows];
  int64_t diagonal[kTileRows];
};

// As dropout.h has it: a weight is kept, times `keep`, iff its word is at least the threshold.
struct Dropout {
  bool present;
  uint32_t key[2];
  uint32_t threshold;
  float keep;
  uint32_t sequence;
  alignas(64) uint32_t query[kTileRows];
  alignas(64) uint32_t head[kTileRows];
};

struct Tile {
  // Inputs. `dtype` is that of q, k and v.
  int32_t dtype;
  int32_t rows;
  float scale;
  float softcap;  // 0: none
  int64_t d;
  int64_t dv;
  SourceRows k;  // from the sequence's first key
  SourceRows v;

  // Row r of the tile reads q[r] and sees the keys [first[r], last[r]). No row sees any key outside
  // [begin, end), and none of those is read.
  int64_t q_column;  // bytes between elements of a row of q
  int64_t begin;
  int64_t end;
  const char* q[kTileRows];
  float q_scale[kTileRows];
  int64_t first[kTileRows];
  int64_t last[kTileRows];

  PairValues bias;  // added to the logits
  PairValues mask;  // 0: not seen
  Alibi alibi;
  Dropout dropout;

  // The online softmax: m is the largest logit so far, l = sum of exp(logit - m), o = sum of
  // exp(logit - m) * v. work.cpp sets m and l to what the sink alone gives.
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
