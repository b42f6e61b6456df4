// SPDX-License-Identifier: BSD-3-Clause
//
// What comes before and after the V2 backward's main kernel: delta of each row, and dq's sums on
// their way to dq.
#pragma once

#include "cuda/sm80/config.h"
#include "cuda/sm80/output.cuh"
#include "cuda/sm80/products.cuh"
#include "cuda/sm80/query_sums.cuh"

namespace volley::cuda::v2 {

constexpr int kDeltaWarps = kDeltaRows / 16;
using DeltaTile = Tile<kDeltaRows, 64>;

// An fp32 o is three numbers of 16 bits, n0 + n1 / kFiner + n2 / kFiner^2, which lose nothing of
// it.
constexpr int kPartsOfO = 3;
template <Element kElement>
constexpr float kFiner = kElement == Element::kBf16 ? 0x1p8f : 0x1p11f;

// 64 columns of a tile's rows, from `first_col` on; zeros outside the tensor. They are there after
// a wait for copies and a barrier. fp32 is rounded; with more than one part, each further tile gets
// what rounding has left, times kFiner. Threads: the CTA.
template <Element kElement>
__device__ __forceinline__ void read_tile(const Output& from, const char* first_row, int rows,
                                          int first_col, int columns, Bits16* tiles, int parts) {
  constexpr int kThreads = 32 * kDeltaWarps;
  const auto* const data = reinterpret_cast<const Bits16*>(first_row);
  const DeltaTile to{tiles};
  if (from.vector != 0) {
    to.load<kThreads>(data + first_col, from.stride.axis[1], rows, columns - first_col);
    return;
  }
  for (int i = static_cast<int>(threadIdx.x); i < kDeltaRows * 64; i += kThreads) {
    const int row = i / 64, col = i % 64;
    const bool inside = row < rows && first_col + col < columns;
    const i64 at = row * from.stride.axis[1] + (first_col + col) * from.stride.axis[3];
    Bits16* place = to.at(0, row, col / 8) + col % 8;
    if (from.type != kF32) {
      *place = inside ? data[at] : Bits16{0};
      continue;
    }
    float left = inside ? reinterpret_cast<const float*>(first_row)[at] : 0.f;
    for (int part = 0; part < parts; ++part, place += kDeltaRows * 64) {
      const auto bits = static_cast<unsigned short>(ptx::pack<kElement>(left, 0.f));
      *place = Bits16{bits};
      left -= kElement == Element::kBf16 ? ptx::from_bf16(bits) : ptx::from_f16(bits);
      left *= kFiner<kElement>;
    }
  }
}

// The products are those of dP, in the same order, of which only the diagonal is used: so a row
// that sees one key, whose o is its v, gets dP - delta = 0. So it does with an fp32 o, whose first
// part is v and the others 0. Rows that no query in use owns get something, too; nobody reads it.
// Threads: 32 kDeltaWarps, shared memory: delta_shared_bytes.
template <Element kElement>
__device__ __forceinline__ void compute_delta(const DeltaParams& p) {
  auto* const dout = reinterpret_cast<Bits16*>(ptx::dynamic_shared());
  Bits16* const o = dout + kDeltaRows * 64;
  const int parts = p.o.type == kF32 ? kPartsOfO : 1;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const i64 row_tiles = (p.query_rows + kDeltaRows - 1) / kDeltaRows;
  for (i64 tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
    const i64 row = tile % row_tiles * kDeltaRows;
    const int head = static_cast<int>(tile / row_tiles % p.heads);
    const int batch = static_cast<int>(tile / row_tiles / p.heads);
    const i64 left = p.query_rows - row;
    const int rows = static_cast<int>(left < kDeltaRows ? left : kDeltaRows);
    float c[kPartsOfO][1][8] = {};
    for (int col = 0; col < p.columns; col += 64) {
      ptx::sync_cta();  // all are done with the last columns
      read_tile<kElement>(p.o, row_of(p.o, batch, row, head), rows, col, p.columns, o, parts);
      read_tile<kElement>(p.dout, row_of(p.dout, batch, row, head), rows, col, p.columns, dout, 1);
      ptx::commit_copies();
      ptx::wait_copies<0>();
      ptx::sync_cta();
#pragma unroll
      for (int part = 0; part < kPartsOfO; ++part) {
        if (part >= parts) break;
        multiply_transposed<kElement, 0>(DeltaTile{dout}, 16 * warp,
                                         DeltaTile{o + part * kDeltaRows * 64}, 16 * warp, c[part],
                                         [] {});
      }
    }
    // The diagonal: C[r][r] and C[r + 8][r + 8] for r = lane / 4 are in lanes with 2 (lane % 4) =
    // r.
    const int r = lane / 4;
    if (lane % 4 != r / 2) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int at = 16 * warp + r + 8 * half;
      if (at >= rows) continue;
      float delta = 0;
#pragma unroll
      for (int part = kPartsOfO - 1; part >= 0; --part) {
        const float odd = c[part][0][6 * half + 1], even = c[part][0][6 * half];
        delta = delta / kFiner<kElement> + (r % 2 != 0 ? odd : even);
      }
      if (p.dlse != nullptr) {
        delta -= p.dlse[batch * p.dlse_stride.batch + head * p.dlse_stride.head +
                        (row + at) * p.dlse_stride.row];
      }
      p.delta[(i64{batch} * p.heads + head) * p.query_rows + row + at] = delta;
    }
  }
}

// Eight neighbours in a row. Threads: any.
__device__ __forceinline__ void write_vector(const DqParams& p, const float* sums, char* row,
                                             int col) {
  const float4 even = *reinterpret_cast<const float4*>(sums);
  const float4 odd = *reinterpret_cast<const float4*>(sums + 32);
  const float values[8] = {even.x, odd.x, even.y, odd.y, even.z, odd.z, even.w, odd.w};
  if (p.dq.vector != 0 && p.accumulate == 0) {
    u32 pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float low = values[2 * i] * p.scale, high = values[2 * i + 1] * p.scale;
      pairs[i] = p.dq.type == kBf16 ? ptx::pack_bf16(low, high) : ptx::pack_f16(low, high);
    }
    *reinterpret_cast<uint4*>(reinterpret_cast<Bits16*>(row) + col) =
        make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (col + i < p.columns) {
      put_number(p.dq, row, col + i, values[i] * p.scale, p.accumulate != 0);
    }
  }
}

// dq = 0 in rows `begin` to `end` - 1 of one batch, all heads. Threads: a whole warp.
__device__ __forceinline__ void clear_dq(const DqParams& p, int batch, i64 begin, i64 end) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (i64 row = begin; row < end; ++row) {
    for (int head = 0; head < p.heads; ++head) {
      char* const to = row_of(p.dq, batch, row, head);
      for (int col = lane; col < p.columns; col += 32) put_number(p.dq, to, col, 0.f, false);
    }
  }
}

// Tile after tile. A warp takes 8 rows and 32 columns at a time: whole sectors of what it reads and
// of what it writes. Threads: any number of warps.
__device__ __forceinline__ void write_dq(const DqParams& p) {
  const int threads = static_cast<int>(blockDim.x);
  const int vectors = (p.columns + 7) / 8;  // of a row
  for (i64 number = blockIdx.x; number < p.tiles; number += gridDim.x) {
    const i64 batch_head = number / p.q_tiles;
    const int tile = static_cast<int>(number - batch_head * p.q_tiles);
    const int batch = static_cast<int>(batch_head / p.heads);
    const int head = static_cast<int>(batch_head - i64{batch} * p.heads);
    const Sequence rows = read_sequence(p, batch);
    const int first_row = tile * p.block_m, left = rows.sq - first_row;
    if (left <= 0) continue;
    const float* const sums =
        p.sums + sum_tile(p, rows, batch, head, tile, p.block_m) * (p.block_m * p.d);
    char* const to =
        row_of(p.dq, p.lengths.cu_q != nullptr ? 0 : batch, i64{rows.q_base} + first_row, head);
    for (int i = static_cast<int>(threadIdx.x); i < p.block_m * vectors; i += threads) {
      const int row = i / 8 / vectors * 8 + i % 8, col = i / 8 % vectors * 8;
      if (row < left) {
        write_vector(p, sums + place_of_sum(p.piece, row, col),
                     to + size_of(p.dq.type) * row * p.dq.stride.axis[1], col);
      }
    }
  }
  if (p.accumulate == 0) {
    const i64 warps = threads / 32;
    for_unused_rows(p, blockIdx.x * warps + threadIdx.x / 32, gridDim.x * warps,
                    [&](int batch, i64 begin, i64 end) { clear_dq(p, batch, begin, end); });
  }
}

}  // namespace volley::cuda::v2
