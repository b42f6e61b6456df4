// SPDX-License-Identifier: BSD-3-Clause
//
// The kernels that there is one of, and the way to the others.
#include "cuda/sm80/bias_gradient.cuh"
#include "cuda/sm80/config.h"
#include "cuda/sm80/gradients.cuh"
#include "cuda/sm80/kernels.h"
#include "cuda/sm80/pack.cuh"
#include "cuda/sm80/sink_gradient.cuh"

namespace volley::cuda::v2 {

__global__ void v2_pack(const __grid_constant__ PackParams p) { pack(p); }

template <Element kElement>
__global__ void v2_delta(const __grid_constant__ DeltaParams p) {
  compute_delta<kElement>(p);
}
__global__ void v2_dq(const __grid_constant__ DqParams p) { write_dq(p); }
__global__ void v2_dbias(const __grid_constant__ DbiasParams p) { write_dbias(p); }
__global__ void __launch_bounds__(kDsinkThreads) v2_dsink(const __grid_constant__ DsinkParams p) {
  sink_gradient(p);
}

const void* pack_kernel() { return reinterpret_cast<const void*>(&v2_pack); }
const void* delta_kernel(Element element) {
  return element == Element::kBf16 ? reinterpret_cast<const void*>(&v2_delta<Element::kBf16>)
                                   : reinterpret_cast<const void*>(&v2_delta<Element::kF16>);
}
const void* dq_kernel() { return reinterpret_cast<const void*>(&v2_dq); }
const void* dbias_kernel() { return reinterpret_cast<const void*>(&v2_dbias); }
const void* dsink_kernel() { return reinterpret_cast<const void*>(&v2_dsink); }

const void* forward_kernel(int row) {
  switch (forward_config(row).d) {
    case 64: return forward_kernel_of<64>(row);
    case 128: return forward_kernel_of<128>(row);
    default: return forward_kernel_of<256>(row);
  }
}

const void* backward_kernel(int row) {
  switch (backward_config(row).d) {
    case 64: return backward_kernel_of<64>(row);
    case 128: return backward_kernel_of<128>(row);
    default: return backward_kernel_of<256>(row);
  }
}

}  // namespace volley::cuda::v2
