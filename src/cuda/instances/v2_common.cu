// SPDX-License-Identifier: BSD-3-Clause
//
// The packing kernel, and the way to the others.
#include "cuda/sm80/config.h"
#include "cuda/sm80/kernels.h"
#include "cuda/sm80/pack.cuh"

namespace volley::cuda::v2 {

__global__ void v2_pack(const __grid_constant__ PackParams p) { pack(p); }

const void* pack_kernel() { return reinterpret_cast<const void*>(&v2_pack); }

const void* forward_kernel(int row) {
  switch (forward_config(row).d) {
    case 64: return forward_kernel_of<64>(row);
    case 128: return forward_kernel_of<128>(row);
    default: return forward_kernel_of<256>(row);
  }
}

}  // namespace volley::cuda::v2
