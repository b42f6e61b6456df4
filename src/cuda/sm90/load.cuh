// SPDX-License-Identifier: BSD-3-Clause
//
// The producer: one thread that brings Q tiles and K, V blocks into shared memory by TMA, in the
// order in which the consumers use them. Its counterpart is sm90/forward.cuh.
#pragma once

#include "cuda/common/ring.cuh"
#include "cuda/sm90/smem.cuh"

namespace volley::cuda {

template <FwdConfig C>
class Producer {
 public:
  __device__ __forceinline__ Producer(const FwdParams& p, FwdSmem<C>& smem) : p_(p), smem_(smem) {}

  // The whole stream of tiles, blocks from right to left. K runs one block ahead of V, and the
  // next tile's Q and first K come before this tile's last V: the consumers issue that V's
  // product together with the next tile's first QK^T.
  // Threads: one. Waits: q_empty, k_empty, v_empty. Arrives: q_full, k_full, v_full.
  __device__ __forceinline__ void run() {
    TileWalk<C> walk(p_);
    Tile tile = walk.next();
    load_q(tile);
    if (tile.blocks > 0) load_k(tile, tile.blocks - 1);
    while (tile.blocks > 0) {
      for (int block = tile.blocks - 1; block > 0; --block) {
        load_k(tile, block - 1);
        load_v(tile, block);
      }
      const Tile next = walk.next();
      load_q(next);
      if (next.blocks > 0) load_k(next, next.blocks - 1);
      load_v(tile, 0);
      tile = next;
    }
  }

 private:
  // The tile's record and its queries, or the record that ends the stream.
  __device__ __forceinline__ void load_q(const Tile& tile) {
    ptx::wait(smem_.q_empty[q_.stage], q_.parity ^ 1);
    smem_.tile[q_.stage] = tile;
    ptx::Barrier& full = smem_.q_full[q_.stage];
    if (tile.blocks > 0) {
      ptx::arrive_expecting(full, sizeof(smem_.q[0]));
      ptx::load_box(smem_.q[q_.stage], p_.q, full, tile.first_row, tile.head, tile.batch);
    } else {
      ptx::arrive(full);
    }
    q_.advance();
  }

  __device__ __forceinline__ void load_k(const Tile& tile, int block) {
    ptx::wait(smem_.k_empty[k_.stage], k_.parity ^ 1);
    ptx::Barrier& full = smem_.k_full[k_.stage];
    ptx::arrive_expecting(full, sizeof(smem_.k[0]));
    ptx::load_box(smem_.k[k_.stage], p_.k, full, block * C.block_n, tile.head / p_.group,
                  tile.batch);
    k_.advance();
  }

  __device__ __forceinline__ void load_v(const Tile& tile, int block) {
    ptx::wait(smem_.v_empty[v_.stage], v_.parity ^ 1);
    ptx::Barrier& full = smem_.v_full[v_.stage];
    ptx::arrive_expecting(full, sizeof(smem_.v[0]));
    ptx::load_box(smem_.v[v_.stage], p_.v, full, block * C.block_n, tile.head / p_.group,
                  tile.batch);
    v_.advance();
  }

  const FwdParams& p_;
  FwdSmem<C>& smem_;
  Ring<C.q_slots> q_;
  Ring<C.stages> k_;
  Ring<C.stages> v_;
};

}  // namespace volley::cuda
