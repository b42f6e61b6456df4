// SPDX-License-Identifier: BSD-3-Clause
//
// ldmatrix and mma. Fragments: src/cuda/ptx/mma.cuh.
#include <cstring>

#include "cta.h"
#include "dtype.h"
#include "emulator/device.h"
#include "fmt.h"

namespace volley::emulator {
namespace {

struct Load {
  const void* row;
  uint32_t* r;
};

// Element `column` of row `row` of matrix `matrix`.
uint32_t element(const Operands& operands, size_t matrix, size_t row, size_t column) {
  const void* from = static_cast<const Load*>(operands[8 * matrix + row])->row;
  uint16_t bits;
  std::memcpy(&bits, static_cast<const char*>(from) + 2 * column, sizeof bits);
  return bits;
}

template <bool kTransposed>
void load_all(const Operands& operands) {
  for (size_t lane = 0; lane < operands.size(); ++lane) {
    const size_t row = lane / 4, column = 2 * (lane % 4);
    for (size_t m = 0; m < 4; ++m) {
      const uint32_t low =
          kTransposed ? element(operands, m, column, row) : element(operands, m, row, column);
      const uint32_t high = kTransposed ? element(operands, m, column + 1, row)
                                        : element(operands, m, row, column + 1);
      static_cast<const Load*>(operands[lane])->r[m] = low | high << 16;
    }
  }
}

struct Product {
  float* c;
  const uint32_t* a;
  uint32_t b0, b1;
};

// The two numbers of each pair.
template <float (*to_float)(uint16_t), size_t kRows>
struct Pairs {
  static constexpr size_t kCols = 8;
  uint32_t pair[kRows][kCols];
  float low[kRows][kCols], high[kRows][kCols];

  void split() {
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t col = 0; col < kCols; ++col) {
        low[row][col] = to_float(static_cast<uint16_t>(pair[row][col]));
        high[row][col] = to_float(static_cast<uint16_t>(pair[row][col] >> 16));
      }
    }
  }
};

// A pair holds two neighbours in k. Products of 16-bit numbers are exact in fp32.
template <float (*to_float)(uint16_t)>
void multiply_all(const Operands& operands) {
  Pairs<to_float, 16> a;  // [m][k / 2]
  Pairs<to_float, 8> b;   // [k / 2][n]
  for (size_t lane = 0; lane < operands.size(); ++lane) {
    const auto& own = *static_cast<const Product*>(operands[lane]);
    const size_t g = lane / 4, t = lane % 4;
    a.pair[g][t] = own.a[0];
    a.pair[g + 8][t] = own.a[1];
    a.pair[g][t + 4] = own.a[2];
    a.pair[g + 8][t + 4] = own.a[3];
    b.pair[t][g] = own.b0;
    b.pair[t + 4][g] = own.b1;
  }
  a.split();
  b.split();
  float product[16][8];
  for (size_t m = 0; m < 16; ++m) {
    float row[8] = {};
    for (size_t pair = 0; pair < 8; ++pair) {
      for (size_t n = 0; n < 8; ++n) {
        row[n] += a.low[m][pair] * b.low[pair][n] + a.high[m][pair] * b.high[pair][n];
      }
    }
    std::memcpy(product[m], row, sizeof row);
  }
  for (size_t lane = 0; lane < operands.size(); ++lane) {
    float* c = static_cast<const Product*>(operands[lane])->c;
    const size_t g = lane / 4, t = lane % 4;
    c[0] += product[g][2 * t];
    c[1] += product[g][2 * t + 1];
    c[2] += product[g + 8][2 * t];
    c[3] += product[g + 8][2 * t + 1];
  }
}

const Collective kLoad{"load_matrices", load_all<false>};
const Collective kLoadTransposed{"load_transposed", load_all<true>};
const Collective kMmaBf16{"mma of bf16", multiply_all<core::bf16_to_float>};
const Collective kMmaF16{"mma of fp16", multiply_all<core::f16_to_float>};

void load(const Collective& collective, const void* row, uint32_t* r) {
  const SharedMemory& shared = running().cta.shared();
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0 || !shared.contains(row, 16)) {
    fail(
        fmt::format("{} of a row {} bytes behind the begin of shared memory; wanted is a multiple "
                    "of 16, with 16 bytes left of {}",
                    collective.name, static_cast<const char*>(row) - shared.data(), shared.size()));
  }
  Load own{row, r};
  meet(collective, &own);
}

void multiply(const Collective& collective, float* c, const uint32_t* a, uint32_t b0, uint32_t b1) {
  Product own{c, a, b0, b1};
  meet(collective, &own);
}

}  // namespace

void load_matrices(const void* row, uint32_t (&r)[4]) { load(kLoad, row, r); }
void load_transposed(const void* row, uint32_t (&r)[4]) { load(kLoadTransposed, row, r); }

void mma_bf16(float* c, const uint32_t* a, uint32_t b0, uint32_t b1) {
  multiply(kMmaBf16, c, a, b0, b1);
}
void mma_f16(float* c, const uint32_t* a, uint32_t b0, uint32_t b1) {
  multiply(kMmaF16, c, a, b0, b1);
}

}  // namespace volley::emulator
