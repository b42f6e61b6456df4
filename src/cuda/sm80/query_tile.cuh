// SPDX-License-Identifier: BSD-3-Clause
//
// A tile of query rows of one head, and the blocks of keys that it sees: what a CTA of the forward
// and of query_gradients.cuh works on.
#pragma once

#include "cuda/common/mask.cuh"
#include "cuda/common/sequence.cuh"
#include "cuda/sm80/config.h"
#include "cuda/sm80/extras.cuh"
#include "cuda/sm80/tile.cuh"

namespace volley::cuda::v2 {

// A query tile, and what it sees. It lies in shared memory: registers are scarce.
struct Work {
  int batch, head;  // sequence, query head
  int first_row;
  Sequence rows;
  Band band;
  int first_block, end_block;  // of keys; equal: it sees none
  const Bits16 *k, *v;         // the first key's, of the head
};

// Tile `number`; it may lie past the end of its sequence. The later tiles of a head, which see more
// keys under a causal mask, come first. Params has k, v, q_tiles, heads, group and what
// read_sequence() needs.
template <Config C, class Params>
__device__ __forceinline__ Work find_work(const Params& p, int number) {
  Work work;
  const int batch_head = number / p.q_tiles;
  const int tile = p.q_tiles - 1 - (number - batch_head * p.q_tiles);
  work.batch = batch_head / p.heads;
  work.head = batch_head - work.batch * p.heads;
  work.rows = read_sequence(p, work.batch);
  work.first_row = tile * C.block_m;
  const int shift = p.lengths.relative != 0 ? work.rows.sk - work.rows.sq : 0;
  work.band = {p.lengths.low + shift, p.lengths.high + shift, work.rows.sk};
  const int last_row = min(work.first_row + C.block_m, work.rows.sq) - 1;
  const int begin = first_key<MaskKind::kGeneral>(work.band, work.first_row);
  const int end = end_key<MaskKind::kGeneral>(work.band, last_row);
  const int batch = p.lengths.cu_k != nullptr ? 0 : work.batch, key_head = work.head / p.group;
  work.k = p.k.data + batch * p.k.stride.batch + key_head * p.k.stride.head +
           work.rows.k_base * p.k.stride.row;
  work.v = p.v.data + batch * p.v.stride.batch + key_head * p.v.stride.head +
           work.rows.k_base * p.v.stride.row;
  work.first_block = end > begin ? begin / C.block_n : 0;
  work.end_block = end > begin ? (end + C.block_n - 1) / C.block_n : 0;
  return work;
}

// Starts to copy a block of keys, or of their values, as a group of copies; zeros past the last
// key. `first` is the first key's row. Threads: the CTA.
template <Config C>
__device__ __forceinline__ void load_keys(const Work& work, const Bits16* first, i64 row_stride,
                                          int block, int cols, const Tile<C.block_n, C.d>& to) {
  const int key = block * C.block_n;
  to.template load<threads(C)>(first + key * row_stride, row_stride, work.rows.sk - key, cols);
  ptx::commit_copies();
}

// Hides the scores of keys that lie outside the band: only blocks at an edge of it have any.
template <Config C, int kCount>
__device__ __forceinline__ void hide_keys(const Work& work, const Place& at, int block,
                                          float (&s)[kCount]) {
  const int begin = block * C.block_n, end = begin + C.block_n;
  const int last_row = work.first_row + C.block_m - 1;
  if (first_key<MaskKind::kGeneral>(work.band, last_row) <= begin &&
      end_key<MaskKind::kGeneral>(work.band, work.first_row) >= end) {
    return;
  }
  int first[2], after[2];
#pragma unroll
  for (int slot = 0; slot < 2; ++slot) {
    first[slot] = first_key<MaskKind::kGeneral>(work.band, at.row + 8 * slot) - at.key;
    after[slot] = end_key<MaskKind::kGeneral>(work.band, at.row + 8 * slot) - at.key;
  }
  hide<MaskKind::kGeneral>(s, first, after);
}

}  // namespace volley::cuda::v2
