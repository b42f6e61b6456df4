// SPDX-License-Identifier: BSD-3-Clause
//
// The backward's kernel: the gradients of one tile of queries, key tile by key tile. Reading order:
// this file, pair_gradients, block_product; pack and logits are the forward's.
//
//   S = q k^T,  dP = dO v^T,  dv += P^T dO,  dk += dS^T q,  dq += dS k
//
// S and dP are transposed in memory, (keys, rows). Rows that see nothing of a key tile take no part
// in its products.
#pragma once

#include "cpu/gradient_tile.h"
#include "cpu/kernel/block_product.inc.h"
#include "cpu/kernel/logits.inc.h"
#include "cpu/kernel/pack.inc.h"
#include "cpu/kernel/pair_gradients.inc.h"
#include "cpu/kernel/visible.inc.h"

namespace volley::core {
namespace {

// Packs one row of each query, and the same transposed; rows that see no key, and those up to the
// next whole vector, become 0.
template <class Element>
void pack_query_rows(const Tile& tile, const char* const* from, int64_t column, int64_t n,
                     int64_t stride, float* rows, float* columns) {
  for (int r = 0; r < kTileRows; ++r) {
    float* to = rows + r * stride;
    const bool used = r < tile.rows && tile.first[r] < tile.last[r];
    for (int64_t c = 0; c < n; c += kLanes) {
      store(to + c, used ? load_elements<Element>(from[r] + c * column, column, n - c) : zero());
    }
  }
  for (int64_t c = 0; c < n; ++c) {
    for (int r = 0; r < kTileRows; ++r) columns[c * kTileRows + r] = rows[r * stride + c];
  }
}

void pack_query_rows(int32_t dtype, const Tile& tile, const char* const* from, int64_t column,
                     int64_t n, int64_t stride, float* rows, float* columns) {
  const auto pack = dtype == VOLLEY_F32   ? pack_query_rows<F32>
                    : dtype == VOLLEY_F16 ? pack_query_rows<F16>
                                          : pack_query_rows<Bf16>;
  pack(tile, from, column, n, stride, rows, columns);
}

void pack_keys(const Tile& tile, int64_t key, int keys) {
  const auto pack = tile.dtype == VOLLEY_F32   ? pack_rows<F32, false>
                    : tile.dtype == VOLLEY_F16 ? pack_rows<F16, false>
                                               : pack_rows<Bf16, false>;
  pack(tile.k, key, keys, tile.d, tile.k_stride, tile.k_packed);
  pack(tile.v, key, keys, tile.dv, tile.v_stride, tile.v_packed);
}

// A key tile and the rows [begin, end), whole vectors, that see something of it.
struct KeyTile {
  int64_t key;
  int keys;
  int packed;  // keys rounded up to 4
  int begin;
  int end;
  Visible visible;
};

// False when no row sees a key of it.
bool set_key_tile(const Tile& tile, int64_t key, KeyTile* keys) {
  const int64_t left = tile.end - key;
  keys->key = key;
  keys->keys = left < kTileKeys ? static_cast<int>(left) : kTileKeys;
  keys->packed = (keys->keys + 3) / 4 * 4;
  set_visible(tile, key, keys->keys, keys->packed, &keys->visible);
  int begin = 0;
  int end = tile.rows;
  const auto sees = [&](int r) { return keys->visible.first[r] < keys->visible.last[r]; };
  while (begin < end && !sees(begin)) ++begin;
  while (begin < end && !sees(end - 1)) --end;
  keys->begin = begin / kLanes * kLanes;
  keys->end = (end + kLanes - 1) / kLanes * kLanes;
  return begin < end;
}

// c = rows of k or v times columns of q or dO, for the rows of the key tile.
void score_pairs(const KeyTile& keys, const float* left, int64_t stride, const float* columns,
                 int64_t steps, float* c, int64_t c_row) {
  multiply({.a = left,
            .a_row = stride,
            .a_step = 1,
            .b = columns + keys.begin,
            .b_row = kTileRows,
            .c = c + keys.begin,
            .c_row = c_row,
            .rows = keys.packed,
            .columns = keys.end - keys.begin,
            .steps = steps,
            .add = false});
}

// P in pairs.p and dS, with or without slope, in dp.
template <bool with_slope>
void differentiate(const GradientTile& tile, const KeyTile& keys) {
  const Tile& pairs = tile.pairs;
  pack_keys(pairs, keys.key, keys.keys);
  score_pairs(keys, pairs.k_packed, pairs.k_stride, pairs.q_packed, pairs.d, pairs.p, kTileRows);
  score_pairs(keys, pairs.v_packed, pairs.v_stride, tile.dout_columns, pairs.dv, tile.dp,
              kGradientStride);
  for (int j = 0; j < keys.packed; ++j) {
    float* score = pairs.p + j * kTileRows;
    for (int r = keys.begin; r < keys.end; r += kLanes) {
      store(score + r, load(score + r) * splat(pairs.scale));
    }
  }
  if (pairs.softcap > 0) softcap_slope(tile, keys.packed);
  logits(pairs, keys.visible, keys.key, keys.packed);
  pair_gradients<with_slope>(tile, keys.visible, keys.key, keys.packed, keys.begin, keys.end);
}

void add_key_gradients(const GradientTile& tile, const KeyTile& keys) {
  const Tile& pairs = tile.pairs;
  const int64_t rows = keys.end - keys.begin;
  multiply({.a = pairs.p + keys.begin,
            .a_row = kTileRows,
            .a_step = 1,
            .b = tile.dout_rows + keys.begin * pairs.v_stride,
            .b_row = pairs.v_stride,
            .c = tile.dv + keys.key * pairs.v_stride,
            .c_row = pairs.v_stride,
            .rows = keys.keys,
            .columns = pairs.dv,
            .steps = rows,
            .add = true});
  multiply({.a = tile.dp + keys.begin,
            .a_row = kGradientStride,
            .a_step = 1,
            .b = tile.q + keys.begin * pairs.k_stride,
            .b_row = pairs.k_stride,
            .c = tile.dk + keys.key * pairs.k_stride,
            .c_row = pairs.k_stride,
            .rows = keys.keys,
            .columns = pairs.d,
            .steps = rows,
            .add = true});
}

void add_query_gradients(const GradientTile& tile, const KeyTile& keys) {
  const Tile& pairs = tile.pairs;
  multiply({.a = tile.dp + keys.begin,
            .a_row = 1,
            .a_step = kGradientStride,
            .b = pairs.k_packed,
            .b_row = pairs.k_stride,
            .c = tile.dq + keys.begin * pairs.k_stride,
            .c_row = pairs.k_stride,
            .rows = keys.end - keys.begin,
            .columns = pairs.d,
            .steps = keys.keys,
            .add = true});
}

void load_queries(const GradientTile& tile) {
  const Tile& pairs = tile.pairs;
  pack_query_rows(pairs.dtype, pairs, pairs.q, pairs.q_column, pairs.d, pairs.k_stride, tile.q,
                  pairs.q_packed);
  pack_query_rows(tile.dout_dtype, pairs, tile.dout, tile.dout_column, pairs.dv, pairs.v_stride,
                  tile.dout_rows, tile.dout_columns);
}

void gradients(const GradientTile& tile) {
  const Tile& pairs = tile.pairs;
  for (int64_t i = 0; i < kTileRows * pairs.k_stride; i += kLanes) store(tile.dq + i, zero());
  if (pairs.begin >= pairs.end) return;
  load_queries(tile);
  KeyTile keys;
  for (int64_t key = pairs.begin - pairs.begin % kTileKeys; key < pairs.end; key += kTileKeys) {
    if (!set_key_tile(pairs, key, &keys)) continue;
    differentiate<true>(tile, keys);
    add_key_gradients(tile, keys);
    add_query_gradients(tile, keys);
  }
}

// dS of one key tile into dp, 0 where no pair is seen; the queries are loaded.
void logit_gradients(const GradientTile& tile, int64_t key) {
  for (int64_t i = 0; i < kTileKeys * kGradientStride; i += kLanes) store(tile.dp + i, zero());
  KeyTile keys;
  if (set_key_tile(tile.pairs, key, &keys)) differentiate<false>(tile, keys);
}

// Sum of a * b in the order of the elements, as the products sum: where o is v, as with one key,
// dO.o has the bits of dO.v. An element of b that is 0 adds nothing, whatever a has there.
template <class A, class B>
float dot_as(const SourceRow& a, const SourceRow& b, int64_t n) {
  using One = hn::CappedTag<float, 1>;
  auto sum = hn::Zero(One());
  for (int64_t c = 0; c < n; c += kLanes) {
    float left[kLanes];
    float right[kLanes];
    store(left, load_elements<A>(a.base + c * a.column, a.column, n - c));
    store(right, load_elements<B>(b.base + c * b.column, b.column, n - c));
    for (int i = 0; i < kLanes && c + i < n; ++i) {
      if (right[i] == 0) continue;
      sum = hn::MulAdd(hn::Set(One(), left[i]), hn::Set(One(), right[i]), sum);
    }
  }
  return hn::GetLane(sum);
}

template <class A>
float dot_of(const SourceRow& a, const SourceRow& b, int64_t n) {
  switch (b.dtype) {
    case VOLLEY_F32: return dot_as<A, F32>(a, b, n);
    case VOLLEY_F16: return dot_as<A, F16>(a, b, n);
    default: return dot_as<A, Bf16>(a, b, n);
  }
}

float dot(const SourceRow& a, const SourceRow& b, int64_t n) {
  switch (a.dtype) {
    case VOLLEY_F32: return dot_of<F32>(a, b, n);
    case VOLLEY_F16: return dot_of<F16>(a, b, n);
    default: return dot_of<Bf16>(a, b, n);
  }
}

}  // namespace
}  // namespace volley::core
