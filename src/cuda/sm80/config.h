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
      false;  // softcap, bias, ALiBi, boolean mask, dropout, scale <= 0: what changes scores
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

// The backward's: K and V blocks, Q and dO tiles, P and dS, then the record of the block.
constexpr int backward_tile_bytes(const Config& c) {
  return (2 * (c.block_m + c.block_n) * c.d + 2 * c.block_m * c.block_n) * 2;
}
constexpr int backward_shared_bytes(const Config& c) { return backward_tile_bytes(c) + 128; }

// Warps divide S by rows, then by keys; dK and dV by keys, then by columns; dQ by rows, then by
// columns: 16 rows of the result each, and an equal share of its columns.
constexpr int parts(const Config& c, int rows) { return c.warps / (rows / 16); }
constexpr bool valid_backward(const Config& c) {
  const int by_rows = parts(c, c.block_m), by_keys = parts(c, c.block_n);
  return by_rows * c.block_m == 16 * c.warps && by_keys * c.block_n == 16 * c.warps &&
         c.block_n / by_rows % 16 == 0 && c.d / by_rows % 16 == 0 && c.d / by_keys % 16 == 0 &&
         backward_shared_bytes(c) <= 232448;
}

// The kernel that computes delta takes so many rows a CTA, 16 a warp, and 64 columns at a time.
constexpr int kDeltaRows = 64;
constexpr int kDeltaShared = 2 * kDeltaRows * 64 * 2;  // bytes

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
// clang-format off
inline constexpr Shape kBackwardShapes[] = {
    //  d  queries keys  warps  extras
    { 64,    64,   128,   8,   false},
    { 64,    64,   128,   8,   true},
    {128,    64,    64,   8,   false},
    {128,    64,    64,   8,   true},
    {256,    32,    32,   4,   false},
    {256,    32,    32,   4,   true},
};
// clang-format on
constexpr int kBackwardRows = 2 * static_cast<int>(sizeof(kBackwardShapes) / sizeof(Shape));
constexpr int kForwardRows = 2 * static_cast<int>(sizeof(kForwardShapes) / sizeof(Shape));

// Row 2 i is shape i in bf16, row 2 i + 1 in fp16.
constexpr Config config_of(const Shape& s, int row) {
  return {
      row % 2 == 0 ? Element::kBf16 : Element::kF16, s.d, s.block_m, s.block_n, s.warps, s.extras};
}
constexpr Config forward_config(int row) { return config_of(kForwardShapes[row / 2], row); }
constexpr Config backward_config(int row) { return config_of(kBackwardShapes[row / 2], row); }

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
constexpr int choose_backward(Element element, int d, bool extras, int shared_budget) {
  for (int row = 0; row < kBackwardRows; ++row) {
    const Config c = backward_config(row);
    if (serves(c, element, d, extras) && backward_shared_bytes(c) <= shared_budget) return row;
  }
  return -1;
}

}  // namespace volley::cuda::v2
