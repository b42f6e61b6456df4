// SPDX-License-Identifier: BSD-3-Clause
//
// What the wrappers of ptx/core.cuh and ptx/async.cuh do on the device, for ptx_test.cpp. Those
// that the emulator has, too: tests/probes/mma_probes.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/types.h"

namespace volley::test {

struct Arithmetic {
  float exp2_zero, exp2_minus_infinity, exp2_three;
  float log2_eight, reciprocal_four;
  uint32_t packed;  // pack_bf16(1, -2)
};

struct Warp {
  int uniform;             // of 7 in all lanes
  int any_of_one;          // one lane says true
  int any_of_none;         // none does
  int shuffled[32];        // the lane's number, from lane ^ 1
  int elected;             // how many lanes elect_one chose
  int seen_by_second;      // what warp 1 reads after a named barrier that warp 0 only arrives at
  int after_reallocation;  // registers moved from one warpgroup to the other: 1
};

struct Phases {
  int fresh_parity_1, fresh_parity_0;
  int first_arrival_of_two;   // parity 0 after one of two arrivals
  int second_arrival_of_two;  // ... after both
};

struct Probes {
  Arithmetic arithmetic;
  Warp warp;
  Phases phases;
};

bool run_probes(Probes* out, std::string* error);

// Runs one of the structs of mma_probes.h.
template <class Probe>
bool run_probe(Probe* probe, std::string* error);

// The 64-row tile at (row, head, batch) of a tensor, as TMA leaves it in shared memory.
bool load_tile(const cuda::TensorMap& map, int row, int head, int batch, int elements,
               std::vector<uint16_t>* tile, std::string* error);

// Device memory with the given contents; never freed, a test has little of it.
void* upload(const std::vector<uint16_t>& contents);

}  // namespace volley::test
