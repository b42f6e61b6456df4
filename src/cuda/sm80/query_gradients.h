// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels that know a query's whole row of dS: which are built, and what the host hands to
// them. dq by query tiles and dbias: query_gradients.cuh. dsink: sink_gradient.cuh. Plain C++.
#pragma once

#include "cuda/sm80/config.h"
#include "cuda/sm80/params.h"

namespace volley::cuda::v2 {

// Of each d one shape, which serves every call: 16 query rows a warp, and shared memory for an SM
// of 99 KB. So it knows about extras, and scores come in their units.
// clang-format off
inline constexpr Shape kQueryShapes[] = {
    //  d  queries keys  warps  extras
    { 64,    64,    64,   4,   true},
    {128,   128,    64,   8,   true},
    {256,    64,    32,   4,   true},
};
// clang-format on
constexpr int kQueryRows = 2 * static_cast<int>(sizeof(kQueryShapes) / sizeof(Shape));
constexpr Config query_config(int row) { return config_of(kQueryShapes[row / 2], row); }

// Q and dO tiles, a K block and a V block, then the record of the tile.
constexpr int query_tile_bytes(const Config& c) { return 2 * (c.block_m + c.block_n) * c.d * 2; }
constexpr int query_shared_bytes(const Config& c) { return query_tile_bytes(c) + 128; }

constexpr bool all_queries_valid() {
  for (int row = 0; row < kQueryRows; ++row) {
    const Config c = query_config(row);
    if (!valid(c) || row_groups(c) != 1 || query_shared_bytes(c) > 99 * 1024) return false;
  }
  return true;
}
static_assert(all_queries_valid());

// The row beside a main kernel, whose columns it shares.
constexpr int query_row(const Config& main) {
  int row = 0;
  while (!serves(query_config(row), main.element, main.d, true)) ++row;
  return row;
}

// Where dS goes. Either no axis of dbias is summed, and elements are written where they belong, or
// they are added up in fp32 first.
struct BiasGradient {
  Output out;                // (batch, head, query, key); data null: not wanted, or there are sums
  float* sums;               // null: there are none
  Strides4 sum_stride;       // (batch, head, query, key), 0 along an axis that is summed
  int over_rows, over_keys;  // 1: summed over that axis
};

struct QueryGradientParams {
  Operand q;         // (b, sq, hq, d)
  Operand k;         // (b, sk, hk, d)
  Operand v;         // (b, sk, hk, dv)
  Operand dout;      // (b, sq, hq, dv)
  const float* lse;  // (b, hq, sq)
  Strides lse_stride;
  const float* delta;  // (b, hq, query_rows): DeltaParams
  Output dq;           // (b, sq, hq, d)
  BiasGradient bias;
  float scale;       // softmax scale
  float keep_scale;  // 1 / (1 - dropout_p)
  int sq, sk;        // a sequence, at most
  int d, dv;         // columns of q and k, of v and dout, multiples of 8
  int columns;       // of dq
  int heads;         // hq
  int group;         // hq / hk
  int q_tiles;       // of a sequence, at most
  int tiles;         // of all heads and sequences
  int run;         // of them, `run_step` apart, one CTA computes in order: their sums of dbias then
  int run_step;    // have a fixed order
  int accumulate;  // 1: dq and dbias are added to
  i64 query_rows;  // of a batch of q
  Lengths lengths;
  Extras extras;
};

// The sums of dbias, to where they belong.
struct DbiasParams {
  const float* sums;  // (batch, head, query, key) without gaps; null: all are 0
  Output dbias;       // the same, of any strides
  int heads, rows, keys;
  int accumulate;
  i64 elements;
};

struct DsinkParams {
  const void* sink;  // (hq)
  i64 sink_stride;
  int sink_type;     // a SinkType
  const float* lse;  // (b, hq, sq)
  Strides lse_stride;
  const float* dlse;  // (b, hq, sq), null: 0
  Strides dlse_stride;
  const float* delta;  // (b, hq, query_rows): DeltaParams
  float* dsink;        // (hq)
  i64 dsink_stride;
  int sq, sk;  // a sequence, at most
  int heads;   // hq
  int accumulate;
  i64 query_rows;  // of a batch of q
  Lengths lengths;
};
constexpr int kDsinkThreads = 256;
constexpr int kDsinkShared = kDsinkThreads * 8;  // bytes

}  // namespace volley::cuda::v2
