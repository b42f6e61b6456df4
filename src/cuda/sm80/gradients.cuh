// SPDX-License-Identifier: BSD-3-Clause
//
// What comes before and after the V2 backward's main kernel: delta of each row, and dq's sums on
// their way to dq.
#pragma once

#include "cuda/sm80/config.h"
#include "cuda/sm80/output.cuh"
#include "cuda/sm80/products.cuh"

namespace volley::cuda::v2 {

constexpr int kDeltaWarps = kDeltaRows / 16;
using DeltaTile = Tile<kDeltaRows, 64>;

// 64 columns of a tile's rows, from `first_col` on; zeros outside the tensor. Threads: the CTA.
__device__ __forceinline__ void read_tile(const Output& from, const char* first_row, int rows,
                                          int first_col, int columns, const DeltaTile& to) {
  const auto* const data = reinterpret_cast<const Bits16*>(first_row);
  for (int i = static_cast<int>(threadIdx.x); i < kDeltaRows * 64; i += 32 * kDeltaWarps) {
    const int row = i / 64, col = i % 64;
    const bool inside = row < rows && first_col + col < columns;
    Bits16* const place = to.at(0, row, col / 8) + col % 8;
    *place = inside ? data[row * from.stride.axis[1] + (first_col + col) * from.stride.axis[3]]
                    : Bits16{0};
  }
}

// The products are those of dP, in the same order, of which only the diagonal is used: so a row
// that sees one key, whose o is its v, gets dP - delta = 0. Rows that no query in use owns get
// something, too; nobody reads it. Threads: 32 kDeltaWarps, shared memory: kDeltaShared.
template <Element kElement>
__device__ __forceinline__ void compute_delta(const DeltaParams& p) {
  auto* const shared = reinterpret_cast<Bits16*>(ptx::dynamic_shared());
  const DeltaTile o{shared}, dout{shared + kDeltaRows * 64};
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const i64 row_tiles = (p.query_rows + kDeltaRows - 1) / kDeltaRows;
  for (i64 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
    const i64 row = tile % row_tiles * kDeltaRows;
    const int head = static_cast<int>(tile / row_tiles % p.heads);
    const int batch = static_cast<int>(tile / row_tiles / p.heads);
    const i64 left = p.query_rows - row;
    const int rows = static_cast<int>(left < kDeltaRows ? left : kDeltaRows);
    float c[8] = {};
    for (int col = 0; col < p.columns; col += 64) {
      ptx::sync_cta();  // all are done with the last columns
      read_tile(p.o, row_of(p.o, batch, row, head), rows, col, p.columns, o);
      read_tile(p.dout, row_of(p.dout, batch, row, head), rows, col, p.columns, dout);
      ptx::sync_cta();
      multiply_part<kElement>(dout, 16 * warp, o, 16 * warp, c);
    }
    // The diagonal: C[r][r] and C[r + 8][r + 8] for r = lane / 4 are in lanes with 2 (lane % 4) =
    // r.
    const int r = lane / 4;
    if (lane % 4 != r / 2) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = 16 * warp + r + 8 * half;
      if (at >= rows) continue;
      const float odd = c[6 * half + 1], even = c[6 * half];
      float delta = r % 2 != 0 ? odd : even;
      if (p.dlse != nullptr) {
        delta -= p.dlse[batch * p.dlse_stride.batch + head * p.dlse_stride.head +
                        (row + at) * p.dlse_stride.row];
      }
      p.delta[(i64{batch} * p.heads + head) * p.query_rows + row + at] = delta;
    }
  }
}

// Element after element. Threads: any.
__device__ __forceinline__ void write_dq(const DqParams& p) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.elements; i += step) {
    const int col = static_cast<int>(i % p.columns);
    const int head = static_cast<int>(i / p.columns % p.heads);
    const i64 token = i / p.columns / p.heads;
    char* const row =
        row_of(p.dq, static_cast<int>(token / p.query_rows), token % p.query_rows, head);
    put_number(p.dq, row, col, p.sums[(token * p.heads + head) * p.d + col] * p.scale,
               p.accumulate != 0);
  }
}

}  // namespace volley::cuda::v2
