// SPDX-License-Identifier: BSD-3-Clause
//
// Where one sequence of a Problem lies: rows, used lengths, mask offset. Shared by the CPU
// backends and by what checks results. The device has its own twin in cuda/common/tile.cuh.
#pragma once

#include <algorithm>
#include <cstdint>

#include "problem.h"

namespace volley::core {

// The length arrays of a run, host memory; NULL where the problem has none.
struct Lengths {
  const int32_t* cu_q = nullptr;
  const int32_t* cu_k = nullptr;
  const int32_t* used_q = nullptr;
  const int32_t* used_k = nullptr;
};

struct Sequence {
  int64_t batch = 0;    // index in a dense tensor's batch axis; 0 when packed
  int64_t batch_k = 0;  // the same for k and v
  int64_t q_begin = 0;  // first row in a packed tensor; 0 when dense
  int64_t k_begin = 0;
  int64_t q_rows = 0;  // rows owned: those past sq are written as empty
  int64_t sq = 0;      // used query rows
  int64_t sk = 0;      // used key rows
  int64_t offset = 0;  // of the band

  // The keys [first, last) that query row i may see by the band alone.
  int64_t first_key(const Band& band, int64_t i) const {
    if (band.left < 0) return 0;
    return std::clamp<int64_t>(saturating_add(i + offset, -band.left), 0, sk);
  }
  int64_t last_key(const Band& band, int64_t i) const {
    if (band.right < 0) return sk;
    return std::clamp<int64_t>(saturating_add(saturating_add(i + offset, band.right), 1), 0, sk);
  }

 private:
  static int64_t saturating_add(int64_t a, int64_t b) {
    int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum)) return b < 0 ? INT64_MIN : INT64_MAX;
    return sum;
  }
};

// Sequence n of the problem. Lengths are clamped to what the tensors hold.
Sequence sequence_at(const Problem& problem, const Lengths& lengths, int64_t n);

}  // namespace volley::core
