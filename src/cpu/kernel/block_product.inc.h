// SPDX-License-Identifier: BSD-3-Clause
//
// The matrix products of the backward: c = a b or c += a b, in blocks that stay in registers. Each
// element is one sum over all steps in order, whatever the block it lies in, so that its bits do
// not depend on where in a tile it is.
#pragma once

#include "cpu/kernel/vec.inc.h"

namespace volley::core {
namespace {

// c[m][n] = sum over t of a[m * a_row + t * a_step] * b[t * b_row + n]. Columns are computed up to
// the next whole vector; rows of c past `rows` are not touched.
struct BlockProduct {
  const float* a;
  int64_t a_row;
  int64_t a_step;
  const float* b;
  int64_t b_row;
  float* c;
  int64_t c_row;
  int64_t rows;
  int64_t columns;
  int64_t steps;
  bool add;
};

// 6 x 4 sums and what multiplies them fill AVX-512's 32 registers, 6 x 2 the 16 elsewhere.
constexpr int kBlockRows = 6;
constexpr int kBlockVectors = kLanes == 16 ? 4 : 2;

template <int rows, int vectors>
HWY_INLINE void product_block(const BlockProduct& product, int64_t m, int64_t n) {
  Vec sum[rows][vectors];
  for (auto& row : sum) {
    for (Vec& x : row) x = zero();
  }
  const float* a = product.a + m * product.a_row;
  const float* b = product.b + n;
  for (int64_t t = 0; t < product.steps; ++t) {
    Vec right[vectors];
    for (int v = 0; v < vectors; ++v) right[v] = load(b + v * kLanes);
    for (int i = 0; i < rows; ++i) {
      const Vec left = splat(a[i * product.a_row]);
      for (int v = 0; v < vectors; ++v) sum[i][v] = hn::MulAdd(left, right[v], sum[i][v]);
    }
    a += product.a_step;
    b += product.b_row;
  }
  for (int i = 0; i < rows; ++i) {
    float* c = product.c + (m + i) * product.c_row + n;
    for (int v = 0; v < vectors; ++v) {
      float* at = c + v * kLanes;
      store(at, product.add ? load(at) + sum[i][v] : sum[i][v]);
    }
  }
}

template <int vectors>
HWY_INLINE void product_columns(const BlockProduct& product, int64_t n) {
  int64_t m = 0;
  for (; m + kBlockRows <= product.rows; m += kBlockRows) {
    product_block<kBlockRows, vectors>(product, m, n);
  }
  switch (product.rows - m) {
    case 1: return product_block<1, vectors>(product, m, n);
    case 2: return product_block<2, vectors>(product, m, n);
    case 3: return product_block<3, vectors>(product, m, n);
    case 4: return product_block<4, vectors>(product, m, n);
    case 5: return product_block<5, vectors>(product, m, n);
    default: return;
  }
}

void multiply(const BlockProduct& product) {
  int64_t vectors = (product.columns + kLanes - 1) / kLanes;
  int64_t n = 0;
  for (; vectors >= kBlockVectors; vectors -= kBlockVectors, n += kBlockVectors * kLanes) {
    product_columns<kBlockVectors>(product, n);
  }
  if (vectors >= 2) {  // of 3
    product_columns<2>(product, n);
    vectors -= 2, n += 2 * kLanes;
  }
  if (vectors == 1) product_columns<1>(product, n);
}

}  // namespace
}  // namespace volley::core
