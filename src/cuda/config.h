// SPDX-License-Identifier: BSD-3-Clause
//
// What a forward kernel is: one constexpr struct, the table of those that are built, and the
// choice between them. The struct is the kernel's only template parameter, so the table is at the
// same time the list of instances, the run-time lookup and the documentation.
// Plain C++: planning includes it without a CUDA header. Read next: sm90/forward.cuh.
#pragma once

namespace volley::cuda {

enum class Element { kBf16, kF16 };

// kFull: every key. kCausal: query i sees key j iff j <= i + offset, for any offset.
// kGeneral: any band, sequences of any length, packed or not, and a softcap.
enum class MaskKind { kFull, kCausal, kGeneral };

// How softmax follows a row's largest score (common/softmax.cuh, docs/numerics.md).
// kExact: block by block. kLazy: once it has grown by 2^8. kOptimistic: it is taken from a tile's
// first columns; a tile in which that was not good enough is computed again, exactly. fp16 has a
// narrower range than bf16, so there a maximum also moves when sums show that P leaves it.
enum class Maximum { kExact, kLazy, kOptimistic };

struct FwdConfig {
  Element element = Element::kBf16;  // q, k, v and o
  int d = 0;                         // head dimension of q and k; smaller ones are padded
  int dv = 0;                        // head dimension of v and o
  MaskKind mask = MaskKind::kFull;
  int block_m = 0;        // query rows a tile: 64 for each consumer warpgroup
  int block_n = 0;        // keys a block
  int q_slots = 1;        // Q tiles in shared memory; 2 prefetch the next tile's
  int stages = 2;         // K blocks, and V blocks, in shared memory
  int from_keys = 0;      // chosen over the rows above it for this many keys and more
  bool overlap = true;    // softmax of a block runs beside the next block's QK^T
  bool ping_pong = true;  // warpgroups take turns on the tensor cores
  bool flat = true;       // a tile's last PV runs beside the next tile's first QK^T
  Maximum maximum = Maximum::kOptimistic;

  constexpr int consumers() const { return block_m / 64; }  // warpgroups that compute
};

constexpr int kWarpgroup = 128;    // threads
constexpr int kRowsPerGroup = 64;  // query rows of one warpgroup: M of every wgmma
constexpr int kChunk = 64;         // 16-bit columns in one swizzled row of 128 bytes
constexpr float kLazyGrowth = 8;   // log2 of what a maximum may grow by before O is rescaled

constexpr int threads(const FwdConfig& c) { return kWarpgroup * (c.consumers() + 1); }

// Registers a thread after setmaxnreg: one more warpgroup loads.
constexpr int producer_registers(const FwdConfig& c) { return c.consumers() == 3 ? 32 : 40; }
constexpr int consumer_registers(const FwdConfig& c) { return c.consumers() == 3 ? 160 : 232; }

constexpr int chunks(int columns) { return (columns + kChunk - 1) / kChunk; }

// Tiles of one CTA that can be remembered to be computed again, one bit each.
constexpr int kRedoTiles = 16384;

// Shared memory of one CTA: the tiles, then barriers and tile records, then the redo list.
// sm90/smem.cuh checks that its struct is no larger.
constexpr int shared_bytes(const FwdConfig& c) {
  const int q = c.q_slots * c.block_m * chunks(c.d);
  const int kv = c.stages * c.block_n * (chunks(c.d) + chunks(c.dv));
  const int redo = c.maximum == Maximum::kOptimistic ? kRedoTiles / 8 : 0;
  return (q + kv) * kChunk * 2 + 1024 + redo;
}

// What a row must satisfy to be a kernel; checked for the whole table below.
constexpr bool valid(const FwdConfig& c) {
  const int registers = producer_registers(c) + c.consumers() * consumer_registers(c);
  // A warpgroup may leave out one block above its diagonal, no more.
  const bool skips_one = c.block_m - kRowsPerGroup <= c.block_n;
  return c.d % 16 == 0 && c.dv % 16 == 0 && c.d <= 256 && c.dv <= 256 && skips_one &&
         c.block_m % kRowsPerGroup == 0 && c.block_n % 16 == 0 && c.block_n <= 256 &&
         c.q_slots >= 1 && c.stages >= 1 && registers * kWarpgroup <= 65536 &&
         (c.maximum != Maximum::kOptimistic || c.mask != MaskKind::kGeneral) &&
         shared_bytes(c) <= 232448;
}

}  // namespace volley::cuda
