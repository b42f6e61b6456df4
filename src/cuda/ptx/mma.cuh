// SPDX-License-Identifier: BSD-3-Clause
//
// The matrix instructions of sm_80: fragments from shared memory, their product, and copies from
// global to shared memory that run beside it. Every later GPU has them, too.
#pragma once

#include "cuda/ptx/core.cuh"

namespace volley::cuda::ptx {

// The CTA's dynamic shared memory, 1024-byte aligned.
__device__ __forceinline__ char* dynamic_shared() {
  extern __shared__ __align__(1024) char shared[];
  return shared;
}

// cp.async.cg 16 bytes, of which the first `bytes` come from `source` and the rest is zero; with 0
// nothing is read. Both addresses are multiples of 16.
__device__ __forceinline__ void copy_async(void* destination, const void* source, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(destination)),
               "l"(source), "r"(bytes)
               : "memory");
}

// cp.async.ca 4 bytes: the same of one number; both addresses are multiples of 4.
__device__ __forceinline__ void copy_number_async(float* destination, const float* source,
                                                  int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(destination)),
               "l"(source), "r"(bytes)
               : "memory");
}

// cp.async.commit_group: the copies since the last call become a group.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// cp.async.wait_group: all of this thread's groups but the last kLeft are complete.
template <int kLeft>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// bar.sync 0. Threads: the CTA.
__device__ __forceinline__ void sync_cta() { __syncthreads(); }

// ldmatrix.x4: four 8x8 matrices of 16-bit elements. Lane i names row i % 8 of matrix i / 8, 16
// bytes; register m holds of matrix m the elements (lane / 4, 2 * (lane % 4)) and the next.
// Threads: a whole warp.
__device__ __forceinline__ void load_matrices(const void* row, u32 (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

// ldmatrix.x4.trans: the same of the transposed matrices.
__device__ __forceinline__ void load_transposed(const void* row, u32 (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

// mma.m16n8k16: c[0..3] += A B in fp32. Thread `lane`, with g = lane / 4 and t = lane % 4, holds
// a: A[g][2t], A[g + 8][2t], A[g][2t + 8], A[g + 8][2t + 8], each with the next column's;
// b: B[2t][g], B[2t + 8][g], each with the next row's;
// c: C[g][2t], C[g][2t + 1], C[g + 8][2t], C[g + 8][2t + 1]. Threads: a whole warp.
template <Element kElement>
__device__ __forceinline__ void mma(float* c, const u32* a, u32 b0, u32 b1) {
  if constexpr (kElement == Element::kBf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// red.global.add.f32: adds to memory; the order of several is not defined.
__device__ __forceinline__ void add_atomically(float* address, float value) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(address), "f"(value) : "memory");
}

}  // namespace volley::cuda::ptx
