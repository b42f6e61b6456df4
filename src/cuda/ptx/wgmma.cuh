// SPDX-License-Identifier: BSD-3-Clause
//
// Warpgroup matrix products: D (64 x N, fp32 in registers) += A (64 x 16) * B (16 x N), 16-bit
// operands. B lies in shared memory, A there too (ss) or in registers (rs). All 128 threads of a
// warpgroup call these together. Fragment and tile layouts: common/layout.cuh.
#pragma once

#include "cuda/config.h"
#include "cuda/ptx/core.cuh"

namespace volley::cuda::ptx {

// wgmma.fence: orders earlier register accesses before the next wgmma. Needed before the first
// one, and after ordinary code has touched an accumulator or an A fragment.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// wgmma.commit_group: closes a group of products.
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// wgmma.wait_group: returns when at most kPending groups are unfinished. Groups end in order.
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// No instruction: tells the compiler that registers in flight change here, so that no use of them
// moves above the wait before this.
template <int kCount>
__device__ __forceinline__ void touch(float (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

template <int kCount>
__device__ __forceinline__ void touch(u32 (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

// Wgmma<element, N> holds the two forms of wgmma.mma_async.sync.aligned.m64nNk16.f32:
//   ss<major>(d, a, b, accumulate)              A and B by descriptor, A K-major
//   rs<major>(d, a0, a1, a2, a3, b, accumulate) A from registers
// `major` is B's; `accumulate` false starts from zero instead of D.
template <Element kElement, int kN>
struct Wgmma;

enum class Major { kK = 0, kMN = 1 };

// clang-format off
// The operand lists have to be spelled out: VOLLEY_Ln names 8n accumulators, VOLLEY_Dn binds them.
#define VOLLEY_L1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define VOLLEY_L2 VOLLEY_L1 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define VOLLEY_L3 VOLLEY_L2 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define VOLLEY_L4 VOLLEY_L3 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define VOLLEY_L5 VOLLEY_L4 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define VOLLEY_L6 VOLLEY_L5 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define VOLLEY_L7 VOLLEY_L6 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define VOLLEY_L8 VOLLEY_L7 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define VOLLEY_L9 VOLLEY_L8 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define VOLLEY_L10 VOLLEY_L9 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define VOLLEY_L11 VOLLEY_L10 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define VOLLEY_L12 VOLLEY_L11 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define VOLLEY_L13 VOLLEY_L12 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define VOLLEY_L14 VOLLEY_L13 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define VOLLEY_L15 VOLLEY_L14 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define VOLLEY_L16 VOLLEY_L15 ", %120, %121, %122, %123, %124, %125, %126, %127"

#define VOLLEY_BIND4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define VOLLEY_BIND8(i) VOLLEY_BIND4(i), VOLLEY_BIND4(i + 4)
#define VOLLEY_D1 VOLLEY_BIND8(0)
#define VOLLEY_D2 VOLLEY_D1, VOLLEY_BIND8(8)
#define VOLLEY_D3 VOLLEY_D2, VOLLEY_BIND8(16)
#define VOLLEY_D4 VOLLEY_D3, VOLLEY_BIND8(24)
#define VOLLEY_D5 VOLLEY_D4, VOLLEY_BIND8(32)
#define VOLLEY_D6 VOLLEY_D5, VOLLEY_BIND8(40)
#define VOLLEY_D7 VOLLEY_D6, VOLLEY_BIND8(48)
#define VOLLEY_D8 VOLLEY_D7, VOLLEY_BIND8(56)
#define VOLLEY_D9 VOLLEY_D8, VOLLEY_BIND8(64)
#define VOLLEY_D10 VOLLEY_D9, VOLLEY_BIND8(72)
#define VOLLEY_D11 VOLLEY_D10, VOLLEY_BIND8(80)
#define VOLLEY_D12 VOLLEY_D11, VOLLEY_BIND8(88)
#define VOLLEY_D13 VOLLEY_D12, VOLLEY_BIND8(96)
#define VOLLEY_D14 VOLLEY_D13, VOLLEY_BIND8(104)
#define VOLLEY_D15 VOLLEY_D14, VOLLEY_BIND8(112)
#define VOLLEY_D16 VOLLEY_D15, VOLLEY_BIND8(120)

// I0... are the numbers of the operands after the accumulators, which count N / 2.
#define VOLLEY_WGMMA(ELEMENT, PTX, N, L, D, I0, I1, I2, I3, I4, I5, I6)                         \
  template <>                                                                                   \
  struct Wgmma<ELEMENT, N> {                                                                    \
    template <Major kMajor>                                                                     \
    static __device__ __forceinline__ void ss(float (&d)[N / 2], u64 a, u64 b,                  \
                                              bool accumulate) {                                \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #I2 ", 0;\n"                            \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX " {" L         \
                   "}, %" #I0 ", %" #I1 ", p, 1, 1, 0, %" #I3 ";\n}"                            \
                   : D                                                                          \
                   : "l"(a), "l"(b), "r"(int(accumulate)), "n"(int(kMajor)));                   \
    }                                                                                           \
    template <Major kMajor>                                                                     \
    static __device__ __forceinline__ void rs(float (&d)[N / 2], u32 a0, u32 a1, u32 a2,        \
                                              u32 a3, u64 b, bool accumulate) {                 \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #I5 ", 0;\n"                            \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX " {" L         \
                   "}, {%" #I0 ", %" #I1 ", %" #I2 ", %" #I3 "}, %" #I4 ", p, 1, 1, %" #I6      \
                   ";\n}"                                                                       \
                   : D                                                                          \
                   : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"(int(accumulate)),          \
                     "n"(int(kMajor)));                                                         \
    }                                                                                           \
  };

#define VOLLEY_WGMMA_ALL(E, P)                                                          \
  VOLLEY_WGMMA(E, P, 16, VOLLEY_L1, VOLLEY_D1, 8, 9, 10, 11, 12, 13, 14)                \
  VOLLEY_WGMMA(E, P, 32, VOLLEY_L2, VOLLEY_D2, 16, 17, 18, 19, 20, 21, 22)              \
  VOLLEY_WGMMA(E, P, 48, VOLLEY_L3, VOLLEY_D3, 24, 25, 26, 27, 28, 29, 30)              \
  VOLLEY_WGMMA(E, P, 64, VOLLEY_L4, VOLLEY_D4, 32, 33, 34, 35, 36, 37, 38)              \
  VOLLEY_WGMMA(E, P, 80, VOLLEY_L5, VOLLEY_D5, 40, 41, 42, 43, 44, 45, 46)              \
  VOLLEY_WGMMA(E, P, 96, VOLLEY_L6, VOLLEY_D6, 48, 49, 50, 51, 52, 53, 54)              \
  VOLLEY_WGMMA(E, P, 112, VOLLEY_L7, VOLLEY_D7, 56, 57, 58, 59, 60, 61, 62)             \
  VOLLEY_WGMMA(E, P, 128, VOLLEY_L8, VOLLEY_D8, 64, 65, 66, 67, 68, 69, 70)             \
  VOLLEY_WGMMA(E, P, 144, VOLLEY_L9, VOLLEY_D9, 72, 73, 74, 75, 76, 77, 78)             \
  VOLLEY_WGMMA(E, P, 160, VOLLEY_L10, VOLLEY_D10, 80, 81, 82, 83, 84, 85, 86)           \
  VOLLEY_WGMMA(E, P, 176, VOLLEY_L11, VOLLEY_D11, 88, 89, 90, 91, 92, 93, 94)           \
  VOLLEY_WGMMA(E, P, 192, VOLLEY_L12, VOLLEY_D12, 96, 97, 98, 99, 100, 101, 102)        \
  VOLLEY_WGMMA(E, P, 208, VOLLEY_L13, VOLLEY_D13, 104, 105, 106, 107, 108, 109, 110)    \
  VOLLEY_WGMMA(E, P, 224, VOLLEY_L14, VOLLEY_D14, 112, 113, 114, 115, 116, 117, 118)    \
  VOLLEY_WGMMA(E, P, 240, VOLLEY_L15, VOLLEY_D15, 120, 121, 122, 123, 124, 125, 126)    \
  VOLLEY_WGMMA(E, P, 256, VOLLEY_L16, VOLLEY_D16, 128, 129, 130, 131, 132, 133, 134)

VOLLEY_WGMMA_ALL(Element::kBf16, "bf16")
VOLLEY_WGMMA_ALL(Element::kF16, "f16")
// clang-format on

}  // namespace volley::cuda::ptx
