// SPDX-License-Identifier: BSD-3-Clause
//
// The producer: one warp that brings Q tiles and K, V blocks into shared memory by TMA, in the
// order in which the consumers use them (consume.cuh), and the janitor, a second warp that clears
// what a V block brings along from past the end of its sequence.
#pragma once

#include "cuda/common/ring.cuh"
#include "cuda/common/walk.cuh"
#include "cuda/sm90/smem.cuh"

namespace volley::cuda {

// Whether V blocks may hold rows that are in the tensor, but past the end of the sequence. Their
// P is 0, yet 0 * NaN is NaN.
template <FwdConfig C>
__device__ __forceinline__ bool has_foreign_rows(const FwdParams& p) {
  return C.mask == MaskKind::kGeneral &&
         (p.lengths.cu_k != nullptr || p.lengths.used_k != nullptr || p.sk == 0);
}
template <FwdConfig C>
__device__ __forceinline__ bool has_foreign_rows(const Tile& tile, int block) {
  return (tile.first_block + block + 1) * C.block_n > tile.sk;
}

// Threads: a whole warp throughout.
template <FwdConfig C>
class Producer {
 public:
  __device__ __forceinline__ Producer(const FwdParams& p, FwdSmem<C>& smem)
      : p_(p), smem_(smem), clears_(has_foreign_rows<C>(p)) {}

  // All tiles; then, if the consumers took a maximum on trust, those for which that was wrong.
  __device__ __forceinline__ void run() {
    constexpr int kRounds = C.maximum == Maximum::kOptimistic ? 2 : 1;
    for (int round = 0; round < kRounds; ++round) {
      if (round > 0) ptx::wait(smem_.finished, 0);
      stream(round > 0);
    }
  }

 private:
  // All tiles of this CTA, or those that the redo list contains, and the end of the stream. Blocks
  // go from left to right. K runs one block ahead of V, and the next tile's first K comes before
  // this tile's last V: the consumers issue that V's product together with the next tile's first
  // QK^T. With a second slot the next tile's Q is loaded as early as can be.
  __device__ __forceinline__ void stream(bool again) {
    constexpr bool kEarly = C.q_slots > 1;
    Walk<C> walk(p_);
    int number = 0;
    const auto next = [&] {
      Work work = walk.next();
      if constexpr (C.maximum == Maximum::kOptimistic) {
        while (again && !work.tile.ends_stream() && !smem_.redo.contains(number++)) {
          work = walk.next();
        }
      }
      return work;
    };
    Work work = next();
    load_q(work);
    if (!work.tile.ends_stream()) load_k(work, 0);
    while (!work.tile.ends_stream()) {
      const int blocks = work.tile.blocks;
      Work following{};
      for (int block = 1; block < blocks; ++block) {
        load_k(work, block);
        load_v(work, block - 1);
        if (kEarly && block == 1) {
          following = next();
          load_q(following);
        }
      }
      if (!kEarly || blocks == 1) following = next();
      if (kEarly && blocks == 1) load_q(following);
      if (!following.tile.ends_stream()) load_k(following, 0);
      load_v(work, blocks - 1);
      if (!kEarly) load_q(following);
      work = following;
    }
  }

  // The tile's record and its queries, or the record that ends the stream.
  // Waits: q_empty. Arrives: q_full.
  __device__ __forceinline__ void load_q(const Work& work) {
    const Tile& tile = work.tile;
    for (int group = 0; group < C.consumers(); ++group) {
      ptx::wait(smem_.q_empty[q_.stage][group], q_.parity ^ 1);
      if (!ptx::elect_one()) continue;
      smem_.tile[q_.stage][group] = tile;
      ptx::Barrier& full = smem_.q_full[q_.stage][group];
      if (tile.ends_stream()) {
        ptx::arrive(full);
        continue;
      }
      ptx::arrive_expecting(full, sizeof(smem_.q[0][0]));
      const int row = tile.q_base + tile.first_row + group * kRowsPerGroup;
#pragma unroll
      for (int chunk = 0; chunk < chunks(C.d); ++chunk) {
        ptx::load_box(smem_.q[q_.stage][group] + chunk * kRowsPerGroup * kChunk, p_.q, full,
                      chunk * kChunk, row, tile.head, tile.batch);
      }
    }
    q_.advance();
  }

  // Waits: k_empty. Arrives: k_full.
  __device__ __forceinline__ void load_k(const Work& work, int block) {
    ptx::wait(smem_.k_empty[k_.stage], k_.parity ^ 1);
    if (ptx::elect_one()) {
      load_block<chunks(C.d)>(smem_.k[k_.stage], p_.k, smem_.k_full[k_.stage], work, block);
    }
    k_.advance();
  }

  // Waits: v_empty. Arrives: v_full, or v_landed if the janitor must see to the block first.
  __device__ __forceinline__ void load_v(const Work& work, int block) {
    ptx::wait(smem_.v_empty[v_.stage], v_.parity ^ 1);
    const bool clear = clears_ && has_foreign_rows<C>(work.tile, block);
    if (ptx::elect_one()) {
      load_block<chunks(C.dv)>(smem_.v[v_.stage], p_.v,
                               clear ? smem_.v_landed[v_.stage] : smem_.v_full[v_.stage], work,
                               block);
    }
    v_.advance();
  }

  // Threads: one.
  template <int kChunks>
  __device__ __forceinline__ void load_block(Bits16* destination, const TensorMap& map,
                                             ptx::Barrier& full, const Work& work, int block) {
    const Tile& tile = work.tile;
    ptx::arrive_expecting(full, C.block_n * kChunks * kChunk * 2);
    const int row = work.k_base + (tile.first_block + block) * C.block_n;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      ptx::load_box(destination + chunk * C.block_n * kChunk, map, full, chunk * kChunk, row,
                    tile.head / p_.group, work.k_batch);
    }
  }

  const FwdParams& p_;
  FwdSmem<C>& smem_;
  const bool clears_;
  Ring<C.q_slots> q_;
  Ring<C.stages> k_;
  Ring<C.stages> v_;
};

// Threads: a whole warp throughout. Walks the same tiles as the producer.
template <FwdConfig C>
class Janitor {
 public:
  __device__ __forceinline__ Janitor(const FwdParams& p, FwdSmem<C>& smem) : p_(p), smem_(smem) {}

  // Waits: v_landed. Arrives: v_full.
  __device__ __forceinline__ void run() {
    if (!has_foreign_rows<C>(p_)) return;
    Walk<C> walk(p_);
    for (Tile tile = walk.next().tile; !tile.ends_stream(); tile = walk.next().tile) {
      for (int block = 0; block < tile.blocks; ++block, v_.advance()) {
        if (!has_foreign_rows<C>(tile, block)) continue;
        ptx::wait(smem_.v_landed[v_.stage], landed_ >> v_.stage & 1);
        landed_ ^= 1u << v_.stage;
        clear(max(0, tile.sk - (tile.first_block + block) * C.block_n));
        ptx::fence_proxy_async();
        __syncwarp();
        if (ptx::elect_one()) ptx::arrive(smem_.v_full[v_.stage]);
      }
    }
  }

 private:
  // Zeros in the block's rows from `row` on. Rows stay whole under the swizzle.
  __device__ __forceinline__ void clear(int row) {
    constexpr int kWords = kChunk * 2 / 16;  // of 16 bytes, in a row of a chunk
    const int count = (C.block_n - row) * kWords;
    for (int chunk = 0; chunk < chunks(C.dv); ++chunk) {
      Bits16* const begin = smem_.v[v_.stage] + (chunk * C.block_n + row) * kChunk;
      for (int i = static_cast<int>(threadIdx.x % 32); i < count; i += 32) {
        reinterpret_cast<uint4*>(begin)[i] = make_uint4(0, 0, 0, 0);
      }
    }
  }

  const FwdParams& p_;
  FwdSmem<C>& smem_;
  Ring<C.stages> v_;
  u32 landed_ = 0;  // parities of v_landed, a bit each
};

}  // namespace volley::cuda
