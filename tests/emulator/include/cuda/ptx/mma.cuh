// SPDX-License-Identifier: BSD-3-Clause
//
// The emulator's twin of src/cuda/ptx/mma.cuh, which says what each function means.
#pragma once

#include "cuda/ptx/core.cuh"

namespace volley::cuda::ptx {

__device__ __forceinline__ char* dynamic_shared() { return emulator::dynamic_shared(); }

__device__ __forceinline__ void copy_async(void* destination, const void* source, int bytes) {
  emulator::copy_async(destination, source, 16, bytes);
}

__device__ __forceinline__ void copy_number_async(float* destination, const float* source,
                                                  int bytes) {
  emulator::copy_async(destination, source, 4, bytes);
}

__device__ __forceinline__ void commit_copies() { emulator::commit_copies(); }

template <int kLeft>
__device__ __forceinline__ void wait_copies() {
  emulator::wait_copies(kLeft);
}

__device__ __forceinline__ void sync_cta() { emulator::sync_cta(); }

__device__ __forceinline__ void load_matrices(const void* row, u32 (&r)[4]) {
  emulator::load_matrices(row, r);
}

__device__ __forceinline__ void load_transposed(const void* row, u32 (&r)[4]) {
  emulator::load_transposed(row, r);
}

template <Element kElement>
__device__ __forceinline__ void mma(float* c, const u32* a, u32 b0, u32 b1) {
  if constexpr (kElement == Element::kBf16) {
    emulator::mma_bf16(c, a, b0, b1);
  } else {
    emulator::mma_f16(c, a, b0, b1);
  }
}

__device__ __forceinline__ void add_atomically(float* address, float value) {
  emulator::add_atomically(address, value);
}

}  // namespace volley::cuda::ptx
