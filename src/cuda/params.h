// SPDX-License-Identifier: BSD-3-Clause
//
// What the host hands to a kernel. One field a line; extents are in elements, strides in elements
// of the tensor they belong to. Filled in by launch.cpp, trusted by the kernels.
#pragma once

#include "cuda/types.h"

namespace volley::cuda {

// Three strides of a tensor whose last stride is 1.
struct Strides {
  i64 batch;
  i64 row;
  i64 head;
};

enum SinkType : int { kNoSink, kSinkF32, kSinkF16, kSinkBf16 };

// The general kernel's lengths and mask. Arrays are null where the call has none.
struct Lengths {
  const int* cu_q;    // (batch + 1): sequence n owns rows cu_q[n] to cu_q[n + 1] - 1 of q and o
  const int* cu_k;    // (batch + 1): the same of k and v
  const int* used_q;  // (batch): of the rows owned, the first used_q[n] count
  const int* used_k;
  int batch;    // sequences
  int total_q;  // rows of q and o where they are packed
  int total_k;  // rows of k and v where they are packed
  int low;      // query i sees key j iff i + low <= j < i + high,
  int high;
  int relative;   // where 1: both plus sk - sq of the sequence
  float softcap;  // 2 log2(e) * softmax scale / cap; 0: no cap. scale_log2 is then cap * log2(e)
};

struct FwdParams {
  TensorMap q;  // (b, hq, sq, d), box (1, 1, 64, 64). Packed: b is 1, sq all rows
  TensorMap k;  // (b, hk, sk, d), box (1, 1, block_n, 64)
  TensorMap v;  // (b, hk, sk, dv), box (1, 1, block_n, 64)
  void* o;      // (b, sq, hq, dv), q's type or fp32
  Strides o_stride;
  float* lse;  // (b, hq, sq), natural logarithm; null: not wanted
  Strides lse_stride;
  const void* sink;  // (hq)
  i64 sink_stride;
  int sink_type;  // a SinkType
  int o_is_f32;
  float scale_log2;  // softmax scale * log2(e)
  int sq;            // queries a sequence, at most
  int sk;            // keys a sequence, at most
  int dv;            // head dimension of o
  int offset;        // causal: query i sees key j iff j <= i + offset
  int heads;         // hq
  int group;         // hq / hk: query heads that share one kv head
  int batch_heads;   // b * hq
  int q_tiles;       // ceil(sq / block_m)
  int first_tile;    // the launch computes tiles from this one
  int end_tile;      // to the one before this, of all heads
  int section;       // causal: heads whose tiles are interleaved (schedule.h)
  Lengths lengths;   // general only
};

}  // namespace volley::cuda
