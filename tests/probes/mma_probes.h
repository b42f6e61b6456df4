// SPDX-License-Identifier: BSD-3-Clause
//
// What the instructions of ptx/mma.cuh do, and those of ptx/core.cuh for which ptx_probes.h has no
// place: a struct for each kind. Its constructor fills in the inputs and makes the outputs NaN, one
// CTA runs it (mma_probes.cuh), and check() compares with plain loops over the layouts that the PTX
// ISA documents. A GPU runs them in tests/cuda/ptx_test.cpp, the emulator in probes_test.cpp.
#pragma once

#include "cuda/config.h"
#include "cuda/types.h"

namespace volley::test {

// ldmatrix of four 8x8 matrices, each row in a place of its own.
struct LoadedMatrices {
  static constexpr int kThreads = 32, kPitch = 24, kShared = 32 * kPitch * 2;
  LoadedMatrices();
  void check() const;

  unsigned short row[32][8];  // row i % 8 of matrix i / 8; no two elements are equal
  cuda::u32 plain[32][4], transposed[32][4];  // of each lane
};

// mma.m16n8k16 of small whole numbers, whose sums are exact.
template <cuda::Element kElement>
struct Product {
  static constexpr int kThreads = 32, kShared = 0;
  Product();
  void check() const;

  cuda::u32 a[32][4], b[32][2];  // of each lane
  float c[32][4], sum[32][4];    // what is added to, and the result
};

// cp.async of 16 bytes and of one number: all of it in even lanes, zeros in odd ones.
struct AsyncCopies {
  static constexpr int kThreads = 32, kShared = 32 * 16 + 32 * 4;
  AsyncCopies();
  void check() const;

  alignas(16) float vectors[32][4];
  float numbers[32];
  float copied_vectors[32][4], copied_numbers[32];
};

// bar.sync of two pairs of warps, each pair with a barrier of its own.
struct PairedWarps {
  static constexpr int kThreads = 128, kShared = kThreads * 4;
  PairedWarps();
  void check() const;

  int partner[kThreads];  // the number of the thread 32 before or behind
};

// red.add: lanes of each parity add their numbers to one sum, which is 100 before.
struct AtomicSums {
  static constexpr int kThreads = 32, kShared = 0;
  AtomicSums();
  void check() const;

  float sum[2];
};

// Shuffles and votes. Of each lane.
struct WarpWords {
  static constexpr int kThreads = 32, kShared = 0;
  WarpWords();
  void check() const;

  int third_next[32];  // the lane's number, from three lanes on
  float shuffled[32];  // the lane's number and a half, from lane ^ 16
  int last_below_seven[32];
  int none_is_minus_one[32];
  int sum_of_lanes[32], sum_of_large[32];  // inclusive sums of the lane's number and of 2^29
};

// Conversions to 16 bits and back; which pairs are marked as not finite. By the first thread.
struct Conversions {
  static constexpr int kThreads = 32, kShared = 0;
  Conversions();
  void check() const;

  static constexpr int kPairs = 4;
  float low[kPairs], high[kPairs];
  cuda::u32 bf16[kPairs], f16[kPairs];            // the pairs, packed
  float from_bf16[kPairs], from_f16[kPairs];      // of the high half of those
  cuda::u32 bf16_mark[kPairs], f16_mark[kPairs];  // after this pair and those before
};

}  // namespace volley::test
