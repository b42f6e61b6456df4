// SPDX-License-Identifier: BSD-3-Clause
//
// What a forward kernel is: one constexpr struct, the table of those that are built, and the
// choice between them. The struct is the kernel's only template parameter, so the table is at the
// same time the list of instances, the run-time lookup and the documentation.
// Plain C++: planning includes it without a CUDA header. Read next: sm90/forward.cuh.
#pragma once

namespace volley::cuda {

enum class Element { kBf16, kF16 };

// kCausal: query i sees key j iff j <= i + offset, for any offset.
enum class MaskKind { kFull, kCausal };

struct FwdConfig {
  Element element;         // q, k, v and o
  int d;                   // head dimension of q and k
  int dv;                  // head dimension of v and o
  MaskKind mask;           // what the inner loop must be able to hide
  int block_m;             // query rows a tile: 64 for each consumer warpgroup
  int block_n;             // keys a block
  int q_slots;             // Q tiles in shared memory; 2 prefetch the next tile's
  int stages;              // K blocks, and V blocks, in shared memory
  int consumers;           // warpgroups that compute; one more loads
  bool overlap;            // softmax of a block runs beside the next block's QK^T
  bool ping_pong;          // warpgroups take turns on the tensor cores
  int lazy_rescale;        // O is rescaled once a maximum has grown by 2^this; 0: at once
  int producer_registers;  // a thread, after setmaxnreg
  int consumer_registers;
};

constexpr int kWarpgroup = 128;    // threads
constexpr int kRowsPerGroup = 64;  // query rows of one warpgroup: M of every wgmma

constexpr int threads(const FwdConfig& c) { return kWarpgroup * (c.consumers + 1); }

// Shared memory of one CTA: the tiles, then barriers and tile records (under 512 bytes).
// sm90/smem.cuh checks that its struct is exactly this large.
constexpr int shared_bytes(const FwdConfig& c) {
  const int q = c.q_slots * c.block_m * c.d;
  const int kv = c.stages * c.block_n * (c.d + c.dv);
  return (q + kv) * 2 + 512 + 512;
}

// Every row is built; plans store the index. Measurements: docs/tuning.md.
enum FwdRow : int { kBf16D64Full, kBf16D64Causal, kBf16D128Full, kBf16D128Causal, kFwdRows };

// clang-format off
inline constexpr FwdConfig kFwdConfigs[kFwdRows] = {
    // d = 64 is bound by exponentials as much as by products, so three warpgroups, and small
    // accumulators leave them the registers for overlap: 369 ... 520 TFLOP/s against 324 ... 509
    // with 192 keys in order.
    {.element = Element::kBf16, .d = 64, .dv = 64, .mask = MaskKind::kFull,
     .block_m = 192, .block_n = 128, .q_slots = 2, .stages = 4, .consumers = 3,
     .overlap = true, .ping_pong = true, .lazy_rescale = 8,
     .producer_registers = 32, .consumer_registers = 160},
    // Level with 192 keys in order; 128 x 128 is 8 % faster up to 1k, 11 % slower from 8k on.
    {.element = Element::kBf16, .d = 64, .dv = 64, .mask = MaskKind::kCausal,
     .block_m = 192, .block_n = 128, .q_slots = 2, .stages = 4, .consumers = 3,
     .overlap = true, .ping_pong = true, .lazy_rescale = 8,
     .producer_registers = 32, .consumer_registers = 160},
    // 192 query rows read a third less K and V than 128 do and a third warpgroup hides more
    // latency than overlap, for which its registers do not suffice: 632 against 600 at 4k.
    {.element = Element::kBf16, .d = 128, .dv = 128, .mask = MaskKind::kFull,
     .block_m = 192, .block_n = 128, .q_slots = 2, .stages = 2, .consumers = 3,
     .overlap = false, .ping_pong = true, .lazy_rescale = 8,
     .producer_registers = 32, .consumer_registers = 160},
    // 128 x 128 wastes least on the diagonal: 304 against 224 for 192 x 128 at 512, level at 8k.
    {.element = Element::kBf16, .d = 128, .dv = 128, .mask = MaskKind::kCausal,
     .block_m = 128, .block_n = 128, .q_slots = 2, .stages = 2, .consumers = 2,
     .overlap = true, .ping_pong = true, .lazy_rescale = 8,
     .producer_registers = 40, .consumer_registers = 232},
};
// clang-format on

// What a row must satisfy to be a kernel; checked for the whole table below.
constexpr bool valid(const FwdConfig& c) {
  const int registers = c.producer_registers + c.consumers * c.consumer_registers;
  return c.d == c.dv && c.d % 64 == 0 && c.block_m == kRowsPerGroup * c.consumers &&
         c.block_n % 16 == 0 && c.block_n <= 256 && c.block_m <= 256 && c.q_slots >= 1 &&
         c.stages >= 2 && c.producer_registers % 8 == 0 && c.consumer_registers % 8 == 0 &&
         registers * kWarpgroup <= 65536 && shared_bytes(c) <= 232448;
}

constexpr bool all_valid() {
  for (const FwdConfig& c : kFwdConfigs) {
    if (!valid(c)) return false;
  }
  return true;
}
static_assert(all_valid());

// The row for a problem on a device that grants `shared_budget` bytes a CTA, or -1 for none.
// Rows of one kind stand in order of preference, so a device that grants less gets a smaller one.
constexpr int choose(Element element, int d, int dv, MaskKind mask, int shared_budget) {
  for (int row = 0; row < kFwdRows; ++row) {
    const FwdConfig& c = kFwdConfigs[row];
    if (c.element == element && c.d == d && c.dv == dv && c.mask == mask &&
        shared_bytes(c) <= shared_budget) {
      return row;
    }
  }
  return -1;
}

}  // namespace volley::cuda
