// SPDX-License-Identifier: BSD-3-Clause
//
// The V2 kernels that are built: FlashAttention-2's design, with the instructions of sm_80. One
// constexpr struct is a kernel's only template parameter, as in cuda/config.h. Plain C++.
// Read next: forward.cuh.
#pragma once

#include "cuda/config.h"

namespace volley::cuda::v2 {

struct Config {
  Element element = Element::kBf16;  // q, k, v
  int d = 0;                         // columns of a tile of q, k and v; smaller ones are padded
  int block_m = 0;                   // query rows a tile
  int block_n = 0;                   // keys a block
  int warps = 0;                     // each owns block_m / warps rows
  bool extras =
      false;        // softcap, bias, ALiBi, boolean mask, dropout, scale <= 0: what changes scores
  int buffers = 1;  // the backward's: of Q, dO and dS tiles; with 2, loads run beside products
  // How many of the backward's warps share out the rows of S and dP, of dK and dV (keys), of dQ;
  // the others share out the columns.
  int score_warps = 0, key_warps = 0, query_warps = 0;
};

constexpr int threads(const Config& c) { return 32 * c.warps; }
constexpr int row_groups(const Config& c) { return c.block_m / (16 * c.warps); }  // of a warp

// A Q tile, a K block and a V block, then the record of the tile.
constexpr int tile_bytes(const Config& c) { return (c.block_m + 2 * c.block_n) * c.d * 2; }
constexpr int shared_bytes(const Config& c) { return tile_bytes(c) + 128; }

constexpr bool valid(const Config& c) {
  return c.d % 64 == 0 && c.d <= 256 && c.block_m % (16 * c.warps) == 0 && c.block_n % 16 == 0 &&
         shared_bytes(c) <= 232448;
}

// A warp's piece of a matrix that the CTA's warps share out, `down` of them along its rows.
struct Piece {
  int rows, cols;
  int across;  // warps along the columns
};
constexpr Piece piece_of(const Config& c, int rows, int cols, int down) {
  const int across = c.warps / down;
  return {rows / down, cols / across, across};
}
constexpr Piece score_piece(const Config& c) {
  return piece_of(c, c.block_m, c.block_n, c.score_warps);
}
constexpr Piece key_piece(const Config& c) { return piece_of(c, c.block_n, c.d, c.key_warps); }
constexpr Piece query_piece(const Config& c) { return piece_of(c, c.block_m, c.d, c.query_warps); }

// The backward's: K and V blocks, Q and dO tiles, P and dS, LSE and delta of the tiles' rows, then
// the record of the block.
constexpr int backward_tile_bytes(const Config& c) {
  return 4 * (c.block_n + c.buffers * c.block_m) * c.d +
         2 * (1 + c.buffers) * c.block_m * c.block_n + 8 * c.buffers * c.block_m;
}
constexpr int backward_shared_bytes(const Config& c) { return backward_tile_bytes(c) + 128; }

constexpr bool shares_out(const Config& c, int rows, int cols, int down) {
  return down > 0 && c.warps % down == 0 && rows % (16 * down) == 0 &&
         cols % (16 * (c.warps / down)) == 0;
}
// The warps that share keys of S, neighbours, are those that own these keys of dK and dV: only they
// wait for each other in between.
constexpr bool in_groups(const Config& c) {
  const Piece keys = key_piece(c);
  return c.score_warps % keys.across == 0 &&
         c.score_warps / keys.across * keys.rows == score_piece(c).cols;
}
constexpr bool valid_backward(const Config& c) {
  return shares_out(c, c.block_m, c.block_n, c.score_warps) &&
         shares_out(c, c.block_n, c.d, c.key_warps) &&
         shares_out(c, c.block_m, c.d, c.query_warps) && in_groups(c) &&
         (c.buffers == 1 || c.buffers == 2) && 2 * c.block_m <= threads(c) &&
         backward_shared_bytes(c) <= 232448;
}

// The kernel that computes delta takes so many rows a CTA, 16 a warp, and 64 columns at a time.
constexpr int kDeltaRows = 64;
// 64 columns of dout and of o, of an fp32 one in three parts.
constexpr int delta_shared_bytes(bool f32_o) { return (f32_o ? 4 : 2) * kDeltaRows * 64 * 2; }

struct Shape {
  int d, block_m, block_n, warps;
  bool extras;
};

// Of one d and kind, the first whose shared memory the device grants.
// clang-format off
inline constexpr Shape kForwardShapes[] = {
    //  d  queries keys  warps  extras
    { 64,   128,   128,   4,   false},
    { 64,   128,    64,   4,   true},
    {128,   128,    64,   4,   false},
    {128,   128,    64,   8,   true},
    {256,    64,    64,   4,   false},  // 96 KB: two CTAs an SM, and one where an SM has 99
    {256,    64,    64,   4,   true},
};
// clang-format on

// Warps own 32 rows of a result where there are enough of them, so that a fragment of the other
// operand serves two groups of 16: reading fragments is what limits these kernels.
struct BackwardShape {
  Shape shape;
  int buffers;
  int score_warps, key_warps, query_warps;
};

// Plain kernels have an SM of 227 KB for themselves; extras kernels fit into 99 KB, and serve plain
// calls of devices that do not grant more.
// clang-format off
inline constexpr BackwardShape kBackwardShapes[] = {
    //  d  queries keys  warps  extras  buffers  warps along rows of S, dK, dQ
    {{ 64,   128,   128,   8,   false},    2,    4, 4, 4},
    {{ 64,    64,   128,   8,   true},     1,    2, 4, 2},
    {{128,    64,   128,   8,   false},    2,    2, 4, 2},
    {{128,    64,    64,   8,   true},     1,    4, 2, 2},
    {{256,    64,    64,   8,   false},    2,    4, 2, 2},
    {{256,    32,    32,   4,   true},     1,    2, 2, 1},
};
// clang-format on
constexpr int kBackwardRows = 2 * static_cast<int>(sizeof(kBackwardShapes) / sizeof(BackwardShape));
constexpr int kForwardRows = 2 * static_cast<int>(sizeof(kForwardShapes) / sizeof(Shape));

// Row 2 i is shape i in bf16, row 2 i + 1 in fp16.
constexpr Config config_of(const Shape& s, int row) {
  return {
      row % 2 == 0 ? Element::kBf16 : Element::kF16, s.d, s.block_m, s.block_n, s.warps, s.extras};
}
constexpr Config forward_config(int row) { return config_of(kForwardShapes[row / 2], row); }
constexpr Config backward_config(int row) {
  const BackwardShape& s = kBackwardShapes[row / 2];
  Config c = config_of(s.shape, row);
  c.buffers = s.buffers;
  c.score_warps = s.score_warps;
  c.key_warps = s.key_warps;
  c.query_warps = s.query_warps;
  return c;
}

constexpr bool all_valid() {
  for (int row = 0; row < kForwardRows; ++row) {
    if (!valid(forward_config(row))) return false;
  }
  for (int row = 0; row < kBackwardRows; ++row) {
    if (!valid_backward(backward_config(row))) return false;
  }
  return true;
}
static_assert(all_valid());

constexpr bool serves(const Config& c, Element element, int d, bool extras) {
  const int columns = d <= 64 ? 64 : d <= 128 ? 128 : 256;
  return c.element == element && c.d == columns && c.extras == extras;
}

// The row for head dimensions up to d on a device that grants `shared_budget` bytes a CTA, or -1.
constexpr int choose_forward(Element element, int d, bool extras, int shared_budget) {
  for (int row = 0; row < kForwardRows; ++row) {
    const Config c = forward_config(row);
    if (serves(c, element, d, extras) && shared_bytes(c) <= shared_budget) return row;
  }
  return -1;
}
constexpr int find_backward(Element element, int d, bool extras, int shared_budget) {
  for (int row = 0; row < kBackwardRows; ++row) {
    const Config c = backward_config(row);
    if (serves(c, element, d, extras) && backward_shared_bytes(c) <= shared_budget) return row;
  }
  return -1;
}
// The same; an extras kernel computes everything, so it also serves where no plain one fits.
constexpr int choose_backward(Element element, int d, bool extras, int shared_budget) {
  const int row = find_backward(element, d, extras, shared_budget);
  return row >= 0 ? row : find_backward(element, d, true, shared_budget);
}

}  // namespace volley::cuda::v2
