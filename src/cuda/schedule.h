// SPDX-License-Identifier: BSD-3-Clause
//
// How the tiles of a call are dealt out to CTAs: the host's half of common/walk.cuh. Pure, plain
// C++: the plan reports it, the launch uses it.
#pragma once

#include "cuda/config.h"
#include "cuda/types.h"

namespace volley::cuda {

// Limits of the kernels' 32-bit counters. The plan refuses what is larger.
constexpr i64 kMaxRows = i64{1} << 28;   // sq and sk, and rows of packed tensors
constexpr i64 kMaxTiles = i64{1} << 30;  // b * hq * ceil(sq / block_m)

// The SMs that a call may use. max_sms 0: all.
constexpr int usable_sms(int max_sms, int device_sms) {
  return max_sms > 0 && max_sms < device_sms ? max_sms : device_sms;
}

// Tiles are numbered and dealt to the CTAs like cards, one a round. Of causal attention they
// differ in length: the tiles of `section` heads are interleaved, all of a length next to each
// other; sections run from long to short tiles, and the rounds go back and forth.
struct Schedule {
  i64 q_tiles = 0;  // of one head
  i64 tiles = 0;    // of all heads
  int section = 1;  // heads
  int grid = 0;     // CTAs
};

// Deterministic: the same tiles to the same CTA for the same arguments. For causal attention the
// section is the one, of those about as large as fits L2, whose deal is most even.
Schedule make_schedule(const FwdConfig& config, i64 b, i64 hq, i64 sq, i64 sk, i64 offset, int sms);

}  // namespace volley::cuda
