// SPDX-License-Identifier: BSD-3-Clause
//
// The fixed-width types that kernels and their host callers share. No host header is included
// here or in any kernel header, so that NVRTC can compile them as they are.
// Read next: config.h (what a kernel is), params.h (what it is given).
#pragma once

namespace volley::cuda {

using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

// A bf16 or an fp16.
struct Bits16 {
  unsigned short bits;
};

// A CUtensorMap, opaque: 128 bytes that only the driver writes and only TMA reads.
struct alignas(128) TensorMap {
  u64 words[16];
};

static_assert(sizeof(u32) == 4 && sizeof(u64) == 8 && sizeof(i64) == 8);

}  // namespace volley::cuda
