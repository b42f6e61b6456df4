// SPDX-License-Identifier: BSD-3-Clause
//
// Runs the instructions of mma_probes.h. Threads: a CTA of the probe's kThreads, with its kShared
// bytes of dynamic shared memory. Nothing but the wrappers is used, so the emulator runs it, too.
#pragma once

#include "cuda/ptx/mma.cuh"
#include "mma_probes.h"

namespace volley::test {

__device__ inline void probe(LoadedMatrices& x) {
  const int lane = static_cast<int>(threadIdx.x);
  auto* const shared = reinterpret_cast<unsigned short*>(cuda::ptx::dynamic_shared());
  unsigned short* const row = shared + (31 - lane) * LoadedMatrices::kPitch;
  for (int i = 0; i < 8; ++i) row[i] = x.row[lane][i];
  cuda::ptx::sync_warp();
  cuda::u32 plain[4], transposed[4];
  cuda::ptx::load_matrices(row, plain);
  cuda::ptx::load_transposed(row, transposed);
  for (int m = 0; m < 4; ++m) {
    x.plain[lane][m] = plain[m];
    x.transposed[lane][m] = transposed[m];
  }
}

template <cuda::Element kElement>
__device__ void probe(Product<kElement>& x) {
  const int lane = static_cast<int>(threadIdx.x);
  float sum[4];
  for (int i = 0; i < 4; ++i) sum[i] = x.c[lane][i];
  cuda::ptx::mma<kElement>(sum, x.a[lane], x.b[lane][0], x.b[lane][1]);
  for (int i = 0; i < 4; ++i) x.sum[lane][i] = sum[i];
}

// Every lane reads what another lane copied.
__device__ inline void probe(AsyncCopies& x) {
  const int lane = static_cast<int>(threadIdx.x), other = 31 - lane;
  auto* const vectors = reinterpret_cast<float*>(cuda::ptx::dynamic_shared());
  float* const numbers = vectors + 32 * 4;
  for (int i = 0; i < 4; ++i) vectors[4 * lane + i] = __builtin_nanf("");
  numbers[lane] = __builtin_nanf("");
  cuda::ptx::sync_cta();
  const bool all = lane % 2 == 0;
  cuda::ptx::copy_async(vectors + 4 * lane, x.vectors[lane], all ? 16 : 0);
  cuda::ptx::commit_copies();
  cuda::ptx::copy_number_async(numbers + lane, x.numbers + lane, all ? 4 : 0);
  cuda::ptx::commit_copies();
  cuda::ptx::wait_copies<1>();
  cuda::ptx::sync_cta();
  for (int i = 0; i < 4; ++i) x.copied_vectors[lane][i] = vectors[4 * other + i];
  cuda::ptx::wait_copies<0>();
  cuda::ptx::sync_cta();
  x.copied_numbers[lane] = numbers[other];
}

__device__ inline void probe(PairedWarps& x) {
  const int thread = static_cast<int>(threadIdx.x);
  auto* const numbers = reinterpret_cast<int*>(cuda::ptx::dynamic_shared());
  numbers[thread] = thread;
  cuda::ptx::named_sync(1 + thread / 64, 64);
  x.partner[thread] = numbers[thread ^ 32];
}

__device__ inline void probe(AtomicSums& x) {
  const int lane = static_cast<int>(threadIdx.x);
  cuda::ptx::add_atomically(&x.sum[lane % 2], static_cast<float>(lane));
}

__device__ inline void probe(WarpWords& x) {
  const int lane = static_cast<int>(threadIdx.x);
  x.third_next[lane] = cuda::ptx::from_lane(lane, (lane + 3) % 32);
  x.shuffled[lane] = cuda::ptx::shuffle_xor(static_cast<float>(lane) + 0.5f, 16);
  x.last_below_seven[lane] = cuda::ptx::last_lane(lane < 7);
  x.none_is_minus_one[lane] = cuda::ptx::last_lane(lane > 31) == -1 ? 1 : 0;
  x.sum_of_lanes[lane] = cuda::ptx::inclusive_sum(lane);
  x.sum_of_large[lane] = cuda::ptx::inclusive_sum(1 << 29);
}

__device__ inline void probe(Conversions& x) {
  using cuda::Element;
  if (threadIdx.x != 0) return;
  cuda::u32 bf16_mark = 0, f16_mark = 0;
  for (int i = 0; i < Conversions::kPairs; ++i) {
    const cuda::u32 bf16 = cuda::ptx::pack<Element::kBf16>(x.low[i], x.high[i]);
    const cuda::u32 f16 = cuda::ptx::pack<Element::kF16>(x.low[i], x.high[i]);
    cuda::ptx::mark_not_finite<Element::kBf16>(bf16_mark, bf16);
    cuda::ptx::mark_not_finite<Element::kF16>(f16_mark, f16);
    x.bf16[i] = bf16;
    x.f16[i] = f16;
    x.from_bf16[i] = cuda::ptx::from_bf16(static_cast<unsigned short>(bf16 >> 16));
    x.from_f16[i] = cuda::ptx::from_f16(static_cast<unsigned short>(f16 >> 16));
    x.bf16_mark[i] = bf16_mark;
    x.f16_mark[i] = f16_mark;
  }
}

}  // namespace volley::test
