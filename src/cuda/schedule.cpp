// SPDX-License-Identifier: BSD-3-Clause
//
// The choice of a causal schedule. A static deal of unequal tiles is as even as a counter in global
// memory would make it, if the number of heads in a section suits the number of CTAs; so a few are
// tried. It needs no memory that a launch would have to clear first.
#include "cuda/schedule.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace volley::cuda {
namespace {

// What a tile costs beside its blocks, in blocks: measured 1.5 to 3.5 (docs/tuning.md).
constexpr double kTileCost = 2.3;
// Where every CTA has this many tiles, no deal is uneven enough to matter.
constexpr i64 kEvenRounds = 64;

struct Heads {
  std::vector<double> cost;  // of a head's tiles, longest first
  i64 count;
};

// The busiest CTA's cost.
double makespan(const Heads& heads, int section, int grid) {
  std::vector<double> load(static_cast<size_t>(grid), 0.0);
  i64 tile = 0;
  for (i64 first = 0; first < heads.count; first += section) {
    const i64 count = std::min<i64>(section, heads.count - first);
    for (const double cost : heads.cost) {
      for (i64 head = 0; head < count; ++head, ++tile) {
        const i64 place = tile % grid;
        load[static_cast<size_t>(tile / grid % 2 == 0 ? place : grid - 1 - place)] += cost;
      }
    }
  }
  return *std::max_element(load.begin(), load.end());
}

int even_section(const FwdConfig& config, const Schedule& s, i64 batch_heads, i64 sk, i64 offset) {
  // Few heads at long lengths, so that K and V stay in L2; enough that neighbours run in step.
  const int usual = static_cast<int>(std::clamp<i64>(65536 / std::max<i64>(sk, 1), 8, 32));
#if VOLLEY_EXPERIMENTS
  if (const char* section = std::getenv("VOLLEY_SECTION")) return std::atoi(section);
#endif
  if (s.tiles > kEvenRounds * s.grid || s.grid < 2) return usual;
  Heads heads{{}, batch_heads};
  for (i64 tile = s.q_tiles - 1; tile >= 0; --tile) {
    const i64 keys = std::clamp<i64>((tile + 1) * config.block_m + offset, 1, sk);
    heads.cost.push_back(static_cast<double>((keys + config.block_n - 1) / config.block_n) +
                         kTileCost);
  }
  int best = usual;
  double least = makespan(heads, usual, s.grid);
  const i64 most = std::min<i64>(std::max(usual * 3 / 2, 16), batch_heads);
  for (int section = usual / 2; section <= most; ++section) {
    const double span = makespan(heads, section, s.grid);
    if (span < 0.998 * least) {
      least = span;
      best = section;
    }
  }
  return best;
}

}  // namespace

Schedule make_schedule(const FwdConfig& config, i64 b, i64 hq, i64 sq, i64 sk, i64 offset,
                       int sms) {
  Schedule s;
  s.q_tiles = (sq + config.block_m - 1) / config.block_m;
  s.tiles = b * hq * s.q_tiles;
  s.grid = static_cast<int>(std::min<i64>(s.tiles, sms));
  if (config.mask == MaskKind::kCausal && s.tiles > 0 && s.tiles <= kMaxTiles) {
    s.section = even_section(config, s, b * hq, sk, offset);
  }
  return s;
}

}  // namespace volley::cuda
