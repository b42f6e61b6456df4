// SPDX-License-Identifier: BSD-3-Clause
//
// A block of keys of one key head, and the tiles of query rows that see it: what a CTA of the
// backward works on. And the keys that no block has: they are cleared.
#pragma once

#include "cuda/common/mask.cuh"
#include "cuda/common/sequence.cuh"
#include "cuda/sm80/config.h"
#include "cuda/sm80/output.cuh"

namespace volley::cuda::v2 {

// A block of keys, and the query tiles that see it. It lies in shared memory.
struct KeyWork {
  int number;
  int batch, key_head;
  int first_key;
  Sequence rows;
  Band band;
  int first_tile, end_tile;
};

// Block `number`. First come the first blocks of the heads of a section, which see the most queries
// under a causal mask, then their second blocks: long ones before short ones, and few heads at a
// time, whose q, dO and sums of dq stay in L2.
template <Config C>
__device__ __forceinline__ KeyWork find_key_work(const BackwardParams& p, int number) {
  KeyWork work;
  work.number = number;
  const int first_head = number / (p.section * p.key_blocks) * p.section;
  const int heads = min(p.section, p.blocks / p.key_blocks - first_head);
  const int in_section = number - first_head * p.key_blocks;
  const int block = in_section / heads;
  const int batch_head = first_head + in_section - block * heads;
  work.batch = batch_head / p.key_heads;
  work.key_head = batch_head - work.batch * p.key_heads;
  work.first_key = block * C.block_n;
  work.rows = read_sequence(p, work.batch);
  const int shift = p.lengths.relative != 0 ? work.rows.sk - work.rows.sq : 0;
  work.band = {p.lengths.low + shift, p.lengths.high + shift, work.rows.sk};
  // Query i sees key j iff j - high < i <= j - low.
  const int last_key = min(work.first_key + C.block_n, work.rows.sk) - 1;
  const int begin = max(0, work.first_key - work.band.high + 1);
  const int end = min(work.rows.sq, last_key - work.band.low + 1);
  const bool seen = end > begin && last_key >= work.first_key;
  work.first_tile = seen ? begin / C.block_m : 0;
  work.end_tile = seen ? (end + C.block_m - 1) / C.block_m : 0;
  return work;
}

// dK = dV = 0 in rows `begin` to `end` - 1 of one batch. Threads: a whole warp.
__device__ __forceinline__ void clear_keys(const BackwardParams& p, int batch, i64 begin, i64 end) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (i64 row = begin; row < end; ++row) {
    for (int head = 0; head < p.key_heads; ++head) {
      char* const dk = row_of(p.dk, batch, row, head);
      char* const dv = row_of(p.dv_out, batch, row, head);
      for (int col = lane; col < p.k_columns; col += 32) put_number(p.dk, dk, col, 0.f, false);
      for (int col = lane; col < p.v_columns; col += 32) put_number(p.dv_out, dv, col, 0.f, false);
    }
  }
}

// Rows past a sequence's used length, and past the last of packed tensors, dealt out to `workers`
// warps. Threads: a whole warp.
__device__ __forceinline__ void clear_unused_keys(const BackwardParams& p, i64 worker,
                                                  i64 workers) {
  const Lengths& l = p.lengths;
  const bool packed = l.cu_k != nullptr;
  if (packed || l.used_k != nullptr) {
    for (i64 n = worker; n < l.batch; n += workers) {
      const Sequence s = read_sequence(p, static_cast<int>(n));
      const int owned = packed ? max(min(l.cu_k[n + 1], l.total_k) - s.k_base, 0) : p.sk;
      clear_keys(p, packed ? 0 : static_cast<int>(n), i64{s.k_base} + s.sk, i64{s.k_base} + owned);
    }
  }
  if (packed) {
    const i64 owned = max(l.cu_k[l.batch], 0);
    for (i64 row = owned + worker; row < l.total_k; row += workers) clear_keys(p, 0, row, row + 1);
  }
}

}  // namespace volley::cuda::v2
