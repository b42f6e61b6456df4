// SPDX-License-Identifier: BSD-3-Clause
//
// How the tiles of a call are dealt out to CTAs: the host's half of common/tile.cuh. Pure, plain
// C++: the plan reports it, the launch uses it.
#pragma once

#include <algorithm>

#include "cuda/config.h"
#include "cuda/types.h"

namespace volley::cuda {

// Limits of the kernels' 32-bit counters. The plan refuses what is larger.
constexpr i64 kMaxRows = i64{1} << 30;   // sq and sk
constexpr i64 kMaxTiles = i64{1} << 30;  // b * hq * ceil(sq / block_m)

// The SMs that a call may use. max_sms 0: all.
constexpr int usable_sms(int max_sms, int device_sms) {
  return max_sms > 0 ? std::min(max_sms, device_sms) : device_sms;
}

struct Schedule {
  i64 q_tiles;      // of one head
  i64 items;        // units of work: a tile, or a long and a short tile
  bool pair_tiles;  // are they pairs?
  int section;      // heads whose items are interleaved
  int grid;         // CTAs
};

constexpr Schedule make_schedule(const FwdConfig& config, i64 b, i64 hq, i64 sq, i64 sk, int sms) {
  Schedule s{};
  s.q_tiles = (sq + config.block_m - 1) / config.block_m;
  const i64 tiles = b * hq * s.q_tiles;
  // Pairs would leave SMs idle where there is not even one tile for each.
  s.pair_tiles = config.mask == MaskKind::kCausal && tiles > sms;
  s.items = s.pair_tiles ? b * hq * ((s.q_tiles + 1) / 2) : tiles;
  // Few heads at long lengths, so that K and V stay in L2; enough that neighbours run in step.
  s.section = static_cast<int>(std::clamp<i64>(65536 / std::max<i64>(sk, 1), 8, 32));
  s.grid = static_cast<int>(std::min<i64>(s.items, sms));
  return s;
}

}  // namespace volley::cuda
