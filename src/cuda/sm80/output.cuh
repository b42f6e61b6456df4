// SPDX-License-Identifier: BSD-3-Clause
//
// Writing rows of any strides, and clearing those that no query in use owns.
#pragma once

#include "cuda/common/mask.cuh"
#include "cuda/common/sequence.cuh"
#include "cuda/sm80/tile.cuh"

namespace volley::cuda::v2 {

__device__ __forceinline__ int size_of(int type) { return type == kF32 ? 4 : 2; }

// Element (batch, row, head, 0).
__device__ __forceinline__ char* row_of(const Output& o, int batch, i64 row, int head) {
  return static_cast<char*>(o.data) +
         size_of(o.type) *
             (batch * o.stride.axis[0] + row * o.stride.axis[1] + head * o.stride.axis[2]);
}

// Element `col` of the row at `row`.
__device__ __forceinline__ float number_at(const Output& o, const char* row, int col) {
  const i64 at = col * o.stride.axis[3];
  if (o.type == kF32) return reinterpret_cast<const float*>(row)[at];
  const unsigned short bits = reinterpret_cast<const Bits16*>(row)[at].bits;
  return o.type == kBf16 ? ptx::from_bf16(bits) : ptx::from_f16(bits);
}

// Becomes `value`, or grows by it: then 0 changes nothing, not even the sign of a zero.
__device__ __forceinline__ void put_number(const Output& o, char* row, int col, float value,
                                           bool accumulate) {
  if (accumulate && value == 0.f) return;
  if (accumulate) value += number_at(o, row, col);
  const i64 at = col * o.stride.axis[3];
  if (o.type == kF32) {
    reinterpret_cast<float*>(row)[at] = value;
  } else {
    const u32 packed = o.type == kBf16 ? ptx::pack_bf16(value, 0.f) : ptx::pack_f16(value, 0.f);
    reinterpret_cast<Bits16*>(row)[at].bits = static_cast<unsigned short>(packed);
  }
}

// Where a warp puts 16 rows of a result down on its way to memory: a place in a tile that no other
// warp reads or writes any more, in which it then finds neighbours side by side.
template <int kRows, int kCols>
struct Stage {
  Tile<kRows, kCols> tile;
  int row;        // the first
  int first = 0;  // column, counted in 16-bit elements, a multiple of 8

  // The place of an element of type Type.
  template <class Type>
  __device__ __forceinline__ Type* at(int r, int col) const {
    constexpr int kPerVector = 16 / sizeof(Type);
    return reinterpret_cast<Type*>(tile.at(row, r, first / 8 + col / kPerVector)) +
           col % kPerVector;
  }
};

// Writes the first `rows` rows and `columns` columns, at most kOwn, of what is staged as 16-bit
// values. Threads: a whole warp.
template <int kOwn, int kRows, int kCols>
__device__ __forceinline__ void copy_out(const Output& o, const Stage<kRows, kCols>& stage,
                                         char* to, int rows, int columns) {
  const int lane = ptx::opaque(static_cast<int>(threadIdx.x) % 32);
  if (o.vector != 0) {
    constexpr int kVectors = kOwn / 8;
    for (int i = lane; i < 16 * kVectors; i += 32) {
      const int r = i / kVectors, col = i % kVectors * 8;
      if (r < rows && col < columns) {
        *reinterpret_cast<uint4*>(reinterpret_cast<Bits16*>(to) + r * o.stride.axis[1] + col) =
            *reinterpret_cast<const uint4*>(stage.template at<Bits16>(r, col));
      }
    }
    return;
  }
  for (int r = 0; r < rows; ++r) {
    Bits16* const row = reinterpret_cast<Bits16*>(to) + r * o.stride.axis[1];
    for (int col = lane; col < columns; col += 32) {
      row[col * o.stride.axis[3]] = *stage.template at<Bits16>(r, col);
    }
  }
}

// Adds what is staged as fp32 to memory, or writes it: `columns` columns from `first_col` on.
// Threads: a whole warp.
template <int kRows, int kCols>
__device__ __forceinline__ void add_out(const Output& o, const Stage<kRows, kCols>& stage, char* to,
                                        int first_col, int rows, int columns, bool accumulate) {
  const int lane = ptx::opaque(static_cast<int>(threadIdx.x) % 32);
  for (int r = 0; r < rows; ++r) {
    char* const row = to + size_of(o.type) * r * o.stride.axis[1];
    for (int col = lane; col < columns; col += 32) {
      put_number(o, row, first_col + col, *stage.template at<float>(r, col), accumulate);
    }
  }
}

// Writes a warp's 16 rows of a result, each times its factor, or adds them to what is there: as
// many columns as `values` has, to the columns from `first_col` on. `to`: the first row in memory.
// Threads: a whole warp.
template <Element kElement, int kRows, int kCols, int kCount>
__device__ __forceinline__ void write_rows(const Output& o, const Stage<kRows, kCols>& stage,
                                           const float (&values)[kCount], const float (&factor)[2],
                                           char* to, int first_col, int rows, int columns,
                                           bool accumulate) {
  const int lane = ptx::opaque(static_cast<int>(threadIdx.x) % 32);
  const int row = lane / 4, col = lane % 4 * 2;
  const int own = min(max(columns - first_col, 0), 2 * kCount);
  if (o.type != kF32 && !accumulate) {
    ptx::sync_warp();
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      const int slot = Accumulator::slot(i);
      *stage.template at<u32>(row + 8 * slot, (col + Accumulator::col_offset(i)) / 2) =
          ptx::pack<kElement>(values[i] * factor[slot], values[i + 1] * factor[slot]);
    }
    ptx::sync_warp();
    copy_out<2 * kCount>(o, stage, to + 2 * first_col * o.stride.axis[3], rows, own);
    return;
  }
  constexpr int kPieces = 2;  // there is room for half as many floats
  constexpr int kPiece = kCount / kPieces;
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
    ptx::sync_warp();
#pragma unroll
    for (int i = 0; i < kPiece; ++i) {
      const int slot = Accumulator::slot(i);
      *stage.template at<float>(row + 8 * slot, col + Accumulator::col_offset(i)) =
          values[piece * kPiece + i] * factor[slot];
    }
    ptx::sync_warp();
    const int begin = piece * 2 * kPiece;
    add_out(o, stage, to, first_col + begin, rows, min(own - begin, 2 * kPiece), accumulate);
  }
}

// O = 0 and LSE = -infinity in rows `begin` to `end` - 1 of one batch, all heads.
// Threads: a whole warp.
__device__ __forceinline__ void clear_rows(const ForwardParams& p, int batch, i64 begin, i64 end) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (i64 row = begin; row < end; ++row) {
    for (int head = 0; head < p.heads; ++head) {
      char* const o = row_of(p.o, batch, row, head);
      for (int col = lane; col < p.o_columns; col += 32) put_number(p.o, o, col, 0.f, false);
      if (p.lse != nullptr && lane == 0) {
        p.lse[batch * p.lse_stride.batch + head * p.lse_stride.head + row * p.lse_stride.row] =
            -kInfinity;
      }
    }
  }
}

// Rows past a sequence's used length, and past the last sequence of packed tensors, dealt out to
// `workers` warps: clear(batch, begin, end) for rows `begin` to `end` - 1. Threads: a whole warp.
template <class Params, class Clear>
__device__ __forceinline__ void for_unused_rows(const Params& p, i64 worker, i64 workers,
                                                const Clear& clear) {
  const Lengths& l = p.lengths;
  const bool packed = l.cu_q != nullptr;
  if (l.used_q != nullptr) {
    for (i64 n = worker; n < l.batch; n += workers) {
      const Sequence s = read_sequence(p, static_cast<int>(n));
      clear(packed ? 0 : static_cast<int>(n), i64{s.q_base} + s.sq, i64{s.q_base} + s.q_rows);
    }
  }
  if (packed) {
    const i64 owned = max(l.cu_q[l.batch], 0);
    for (i64 row = owned + worker; row < l.total_q; row += workers) clear(0, row, row + 1);
  }
}

__device__ __forceinline__ void clear_unused_rows(const ForwardParams& p, i64 worker, i64 workers) {
  for_unused_rows(p, worker, workers,
                  [&](int batch, i64 begin, i64 end) { clear_rows(p, batch, begin, end); });
}

}  // namespace volley::cuda::v2
