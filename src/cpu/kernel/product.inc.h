// SPDX-License-Identifier: BSD-3-Clause
//
// The two matrix products of a tile, as small blocks that stay in registers. Each sum runs over its
// whole range in order, whatever the block it lies in, so that a row's bits do not depend on where
// in a tile it is.
#pragma once

#include "cpu/kernel/vec.inc.h"
#include "cpu/kernel/visible.inc.h"
#include "cpu/tile.h"

namespace volley::core {
namespace {

// Vectors a block: 4 x 4 sums fill half of AVX-512's 32 registers, 4 x 2 half of the 16 elsewhere.
constexpr int kWide = kLanes == 16 ? 4 : 2;

template <int rows, int width>
HWY_INLINE void clear(Vec (&sum)[rows][width]) {
  for (auto& row : sum) {
    for (Vec& x : row) x = zero();
  }
}

// p[j + i][r ...] = scale * sum over c of k[j + i][c] * q[c][r ...] for i < keys.
template <int keys, int width>
HWY_INLINE void score_block(const Tile& tile, int j, int r) {
  Vec sum[keys][width];
  clear(sum);
  const float* k = tile.k_packed + j * tile.k_stride;
  const float* q = tile.q_packed + r;
  for (int64_t c = 0; c < tile.d; ++c) {
    for (int i = 0; i < keys; ++i) {
      for (int w = 0; w < width; ++w) {
        sum[i][w] = hn::MulAdd(splat(k[i * tile.k_stride + c]),
                               load(q + c * kTileRows + w * kLanes), sum[i][w]);
      }
    }
  }
  for (int i = 0; i < keys; ++i) {
    for (int w = 0; w < width; ++w) {
      store(tile.p + (j + i) * kTileRows + r + w * kLanes, sum[i][w] * splat(tile.scale));
    }
  }
}

// Scores of the rows that see a key, rounded up to a whole vector, and the packed keys, rounded up
// to 4.
void score(const Tile& tile, const Visible& visible, int keys) {
  int r = first_block(visible, kWide * kLanes);
  for (; r + (kWide - 1) * kLanes < visible.last_row; r += kWide * kLanes) {
    for (int j = 0; j < keys; j += 4) score_block<4, kWide>(tile, j, r);
  }
  for (; r < visible.last_row; r += kLanes) {
    // As many sums as in a wide block, to hide the latency of their additions.
    int j = 0;
    for (; j + 4 * kWide <= keys; j += 4 * kWide) score_block<4 * kWide, 1>(tile, j, r);
    for (; j < keys; j += 4) score_block<4, 1>(tile, j, r);
  }
}

// o[r + i][c ...] = alpha[r + i] * o[r + i][c ...] + sum over j of p[j][r + i] * v[j][c ...].
template <int width>
HWY_INLINE void value_block(const Tile& tile, const float* alpha, int keys, int r, int64_t c) {
  Vec sum[4][width];
  clear(sum);
  const float* p = tile.p + r;
  const float* v = tile.v_packed + c;
  for (int j = 0; j < keys; ++j) {
    for (int i = 0; i < 4; ++i) {
      for (int w = 0; w < width; ++w) {
        sum[i][w] = hn::MulAdd(splat(p[j * kTileRows + i]),
                               load(v + j * tile.v_stride + w * kLanes), sum[i][w]);
      }
    }
  }
  for (int i = 0; i < 4; ++i) {
    float* o = tile.o + (r + i) * tile.v_stride + c;
    for (int w = 0; w < width; ++w) {
      store(o + w * kLanes, hn::MulAdd(load(o + w * kLanes), splat(alpha[r + i]), sum[i][w]));
    }
  }
}

void accumulate(const Tile& tile, const Visible& visible, const float* alpha, int keys) {
  const int first = first_block(visible, 4);
  int64_t c = 0;
  for (; c + kWide * kLanes <= tile.dv; c += kWide * kLanes) {
    for (int r = first; r < visible.last_row; r += 4) value_block<kWide>(tile, alpha, keys, r, c);
  }
  for (; c < tile.dv; c += kLanes) {
    for (int r = first; r < visible.last_row; r += 4) value_block<1>(tile, alpha, keys, r, c);
  }
}

}  // namespace
}  // namespace volley::core
