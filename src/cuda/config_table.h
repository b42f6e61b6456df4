// SPDX-License-Identifier: BSD-3-Clause
//
// The forward kernels that are built, and the choice between them. Measurements: docs/tuning.md.
#pragma once

#include "cuda/config.h"

namespace volley::cuda {

constexpr FwdConfig shape(int d, int dv, MaskKind mask, int block_m, int block_n, int q_slots,
                          int stages, int from_keys = 0) {
  FwdConfig c;
  c.d = d;
  c.dv = dv;
  c.mask = mask;
  c.block_m = block_m;
  c.block_n = block_n;
  c.q_slots = q_slots;
  c.stages = stages;
  c.from_keys = from_keys;
  return c;
}

// Every shape is built for bf16 and for fp16. Of one head dimension and mask, a row is preferred to
// those above it from its number of keys on, if the device grants its shared memory.
// clang-format off
inline constexpr FwdConfig kFwdShapes[] = {
    //     d   dv  mask                 queries keys  Q slots  stages  from keys
    shape( 64,  64, MaskKind::kFull,     128,  128,     2,       4),
    shape( 64,  64, MaskKind::kFull,     192,  128,     2,       4,      1024),
    shape( 64,  64, MaskKind::kCausal,   128,  128,     2,       4),
    shape( 64,  64, MaskKind::kCausal,   192,  128,     2,       4,      8192),
    shape( 64,  64, MaskKind::kGeneral,  128,  128,     1,       2),  // for 99 KB
    shape( 64,  64, MaskKind::kGeneral,  128,  128,     2,       4),

    shape( 96,  96, MaskKind::kFull,     128,  128,     2,       2),
    shape( 96,  96, MaskKind::kCausal,   128,  128,     2,       2),
    shape( 96,  96, MaskKind::kGeneral,  128,  128,     2,       2),

    shape(128, 128, MaskKind::kFull,     128,  128,     2,       2),
    shape(128, 128, MaskKind::kFull,     128,  176,     1,       2,      4096),
    shape(128, 128, MaskKind::kCausal,   128,  128,     1,       3),
    shape(128, 128, MaskKind::kGeneral,  128,   64,     1,       2),  // for 99 KB
    shape(128, 128, MaskKind::kGeneral,  128,  128,     2,       2),

    shape(192, 128, MaskKind::kFull,     128,  128,     1,       2),
    shape(192, 128, MaskKind::kCausal,   128,  128,     1,       2),
    shape(192, 128, MaskKind::kGeneral,  128,  128,     1,       2),

    shape(192, 192, MaskKind::kFull,     128,  112,     1,       2),
    shape(192, 192, MaskKind::kCausal,   128,  112,     1,       2),
    shape(192, 192, MaskKind::kGeneral,  128,  112,     1,       2),

    shape(256, 256, MaskKind::kFull,     128,   80,     1,       2),
    shape(256, 256, MaskKind::kCausal,   128,   64,     1,       2),
    shape(256, 256, MaskKind::kGeneral,  128,   64,     1,       2),
};
// clang-format on

#if VOLLEY_EXPERIMENTS
#  include "cuda/experiments.inc.h"  // kExperiments: rows that docs/tuning.md compares
#endif

constexpr int kFwdShapeCount = static_cast<int>(sizeof(kFwdShapes) / sizeof(kFwdShapes[0]));
constexpr int kProductRows = 2 * kFwdShapeCount;
#if VOLLEY_EXPERIMENTS
constexpr int kFwdRows = kProductRows + static_cast<int>(sizeof(kExperiments) / sizeof(FwdConfig));
#else
constexpr int kFwdRows = kProductRows;
#endif

// Row 2 i is shape i in bf16, row 2 i + 1 in fp16; experiments follow. Plans store the row. The
// general kernel has rows that see nothing of their first block: there is nothing to trust in it.
constexpr FwdConfig fwd_config(int row) {
#if VOLLEY_EXPERIMENTS
  if (row >= kProductRows) return kExperiments[row - kProductRows];
#endif
  FwdConfig c = kFwdShapes[row / 2];
  c.element = row % 2 == 0 ? Element::kBf16 : Element::kF16;
  if (c.mask == MaskKind::kGeneral) c.maximum = Maximum::kLazy;
  return c;
}

constexpr bool all_valid() {
  for (int row = 0; row < kFwdRows; ++row) {
    if (!valid(fwd_config(row))) return false;
  }
  return true;
}
static_assert(all_valid());

// The smallest head dimensions that are built and hold (d, dv); {0, 0} if none do.
struct HeadDims {
  int d, dv;
};
constexpr HeadDims padded_head_dims(int d, int dv) {
  HeadDims best{0, 0};
  for (const FwdConfig& c : kFwdShapes) {
    if (c.d < d || c.dv < dv) continue;
    if (best.d == 0 || c.d + c.dv < best.d + best.dv) best = {c.d, c.dv};
  }
  return best;
}

// The row for a problem on a device that grants `shared_budget` bytes a CTA, or -1 for none.
constexpr int choose(Element element, HeadDims dims, MaskKind mask, long long keys,
                     int shared_budget) {
  int best = -1;
  for (int row = 0; row < kProductRows; ++row) {
    const FwdConfig c = fwd_config(row);
    if (c.element == element && c.d == dims.d && c.dv == dims.dv && c.mask == mask &&
        keys >= c.from_keys && shared_bytes(c) <= shared_budget) {
      best = row;
    }
  }
  return best;
}

}  // namespace volley::cuda
