// SPDX-License-Identifier: BSD-3-Clause
//
// GradientTile: the backward's unit of work. The same rows and keys as a tile of the forward, with
// what the gradients need beside: dO, LSE and the shift of each row, and where the sums go.
// backward.cpp fills it, kernel/gradients.inc.h computes it. Plain data only: this file is compiled
// for several CPUs.
#pragma once

#include <cstdint>

#include "cpu/tile.h"

namespace volley::core {

// From row to row of dp: no multiple of the 4 KiB at which cache lines meet.
inline constexpr int64_t kGradientStride = kTileRows + 16;

struct GradientTile {
  // Rows, keys, scores and their scratch as in the forward; m, l and o are not used. Rows with
  // first == last are not read.
  Tile pairs;

  int32_t dout_dtype;
  int64_t dout_column;  // bytes between elements of a row of dO
  const char* dout[kTileRows];
  alignas(64) float lse[kTileRows];    // not -inf where a key is seen
  alignas(64) float shift[kTileRows];  // dlse - sum over c of dO * o

  // Sums, rows as in the problem: dq of this tile is written, dk and dv are added to.
  float* dq;  // (kTileRows, k_stride)
  float* dk;  // (keys of the sequence, k_stride)
  float* dv;  // (keys of the sequence, v_stride)

  // Scratch of the thread.
  float* q;             // (kTileRows, k_stride): rows, beside the columns in pairs.q_packed
  float* dout_rows;     // (kTileRows, v_stride)
  float* dout_columns;  // (dv, kTileRows)
  float* dp;            // (kTileKeys, kGradientStride): dP, then dS * slope
  float* slope;         // (kTileKeys, kTileRows): d logit / d score, where there is a softcap
};

// A row of elements in memory, for sums of products of two rows.
struct SourceRow {
  const char* base;
  int64_t column;  // bytes
  int32_t dtype;
};

}  // namespace volley::core
