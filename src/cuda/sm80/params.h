// SPDX-License-Identifier: BSD-3-Clause
//
// What the host hands to the V2 kernels. Extents and strides in elements. Filled in by
// sm80_launch.cpp, trusted by the kernels.
#pragma once

#include "cuda/params.h"
#include "cuda/sm80/config.h"

namespace volley::cuda::v2 {

enum NumberType : int { kF32, kF16, kBf16 };

// A tensor whose rows are read 16 bytes at a time: base and strides are multiples of that, the last
// stride is 1, and a row has a multiple of 8 columns.
struct Operand {
  const Bits16* data;
  Strides stride;
};

// Any tensor (batch, row, head, col), or (batch, head, query, key).
struct Strides4 {
  i64 axis[4];
};

struct Output {
  void* data;
  Strides4 stride;  // (batch, row, head, col)
  int type;         // a NumberType
  int vector;       // 1: 16-bit, and rows can be written 16 bytes at a time
};

// What may change a score, or a weight. Pointers are null where the call has none.
struct Extras {
  float score_scale;  // log2(e) * scale; with a softcap log2(e) * cap, of tanh
  int capped;         // 1: there is a softcap
  float cap_factor;   // 2 log2(e) * scale / cap
  int bias_type;      // a NumberType
  const void* bias;   // (batch, head, query, key)
  Strides4 bias_stride;
  const float* slopes;  // (batch, head): ALiBi
  i64 slope_batch_stride;
  i64 slope_head_stride;
  i64 offset;                 // query i's own key is i + offset, if not relative (Lengths)
  const unsigned char* mask;  // (batch, head, query, key): not 0, may see
  Strides4 mask_stride;
  const u64* dropout_seed;    // null: no dropout
  const u64* dropout_offset;  // null: 0
  u32 dropout_threshold;
};

struct ForwardParams {
  Operand q;   // (b, sq, hq, d)
  Operand k;   // (b, sk, hk, d)
  Operand v;   // (b, sk, hk, dv)
  Output o;    // (b, sq, hq, dv)
  float* lse;  // (b, hq, sq), natural logarithm; null: not wanted
  Strides lse_stride;
  const void* sink;  // (hq)
  i64 sink_stride;
  int sink_type;     // a SinkType
  float scale_log2;  // softmax scale * log2(e); with extras 1, for their scores are in those units
  float keep_scale;  // 1 / (1 - dropout_p)
  int sq;            // queries a sequence, at most
  int sk;            // keys a sequence, at most
  int d;             // columns of q and k, a multiple of 8
  int dv;            // columns of v, a multiple of 8
  int o_columns;     // of o: dv before it was rounded up
  int heads;         // hq
  int group;         // hq / hk
  int q_tiles;       // of a sequence, at most
  int tiles;         // of all heads and sequences
  Lengths lengths;   // its softcap is not used
  Extras extras;
};

struct BackwardParams {
  Operand q;         // (b, sq, hq, d)
  Operand k;         // (b, sk, hk, d)
  Operand v;         // (b, sk, hk, dv)
  Operand dout;      // (b, sq, hq, dv)
  const float* lse;  // (b, hq, sq)
  Strides lse_stride;
  const float* delta;  // (b, hq, query_rows): DeltaParams
  float* dq;         // (b, hq, sum_tiles) tiles of sums without the scale: query_sums.cuh; or null
  Output dk;         // (b, sk, hk, d)
  Output dv_out;     // (b, sk, hk, dv)
  float scale_log2;  // as the forward's
  float scale;       // softmax scale
  float keep_scale;  // 1 / (1 - dropout_p)
  int sq, sk;        // a sequence, at most
  int d, dv;         // columns of q and k, of v and dout, multiples of 8
  int k_columns;     // of dk
  int v_columns;     // of dv_out
  int heads;         // hq
  int key_heads;     // hk
  int group;         // hq / hk
  int key_blocks;    // of a sequence, at most
  int blocks;        // of all key heads and sequences
  int section;       // key heads whose blocks are interleaved
  int accumulate;    // 1: dk and dv_out are added to
  i64 query_rows;    // of a batch of q
  i64 sum_tiles;     // of a batch and head
  Lengths lengths;
  Extras extras;
};

// delta = sum(dout * o) - dlse, a row.
struct DeltaParams {
  Output o, dout;     // read here; (b, sq, hq, dv)
  const float* dlse;  // (b, hq, sq), null: 0
  Strides dlse_stride;
  float* delta;  // (b, hq, query_rows)
  int heads;
  int columns;     // dv
  i64 query_rows;  // of a batch
  i64 tiles;       // of 64 rows, of all batches and heads
};

// The sums of dq, to where they belong.
struct DqParams {
  const float* sums;  // (b, hq, sum_tiles) tiles: query_sums.cuh
  Output dq;
  float scale;  // softmax scale
  int sq, sk;   // a sequence, at most
  int heads;
  int columns;  // of dq
  int accumulate;
  int block_m, d;  // rows and columns of a tile
  Piece piece;     // a warp's of it
  int q_tiles;     // of a sequence, at most
  i64 tiles;       // of all heads and sequences
  i64 sum_tiles;   // of a batch and head
  Lengths lengths;
};

// A copy of any tensor that can be read as an Operand: (batch, rows, heads, columns) without gaps,
// columns rounded up to a multiple of 8 by zeros; fp32 is rounded to 16 bits.
struct PackParams {
  const void* from;
  int from_type;  // a NumberType
  int to_type;    // a 16-bit one; from_type, if that is not kF32
  Strides4 stride;
  Bits16* to;
  int heads;
  int columns;  // of `from`
  i64 rows;     // of a batch
  i64 vectors;  // of 8 elements, in all
};

}  // namespace volley::cuda::v2
