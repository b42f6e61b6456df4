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

struct FwdParams {
  TensorMap q;  // (b, hq, d / 64, sq, 64), box (1, 1, d / 64, block_m, 64)
  TensorMap k;  // (b, hk, d / 64, sk, 64), box (1, 1, d / 64, block_n, 64)
  TensorMap v;  // (b, hk, dv / 64, sk, 64), box (1, 1, dv / 64, block_n, 64)
  Bf16* o;      // (b, sq, hq, dv)
  Strides o_stride;
  float* lse;  // (b, hq, sq), natural logarithm; null: not wanted
  Strides lse_stride;
  float scale_log2;  // softmax scale * log2(e)
  int sq;            // queries a sequence
  int sk;            // keys a sequence
  int dv;            // head dimension of o
  int offset;        // causal: query i sees key j iff j <= i + offset
  int heads;         // hq
  int group;         // hq / hk: query heads that share one kv head
  int batch_heads;   // b * hq
  int q_tiles;       // ceil(sq / block_m)
  int items;         // work items of the schedule (common/tile.cuh)
  int pair_tiles;    // causal: 1 if an item is a long and a short tile
  int section;       // causal: heads whose items are interleaved
};

}  // namespace volley::cuda
