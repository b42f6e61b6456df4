// SPDX-License-Identifier: BSD-3-Clause
//
// Attention over no keys: O = 0 and LSE = -infinity. Used when sk is 0, since a tensor map cannot
// describe an empty tensor; a row that merely sees none of its keys is the main kernel's matter.
#include "cuda/common/mask.cuh"
#include "cuda/kernels.h"

namespace volley::cuda {

// A warp for each row at a time. Grid and block: any number of whole warps.
__global__ void __launch_bounds__(256) fill_entry(const __grid_constant__ FwdParams p) {
  const int lane = threadIdx.x % 32;
  const i64 warps = i64{gridDim.x} * (blockDim.x / 32);
  const i64 rows = i64{p.batch_heads} * p.sq;
  for (i64 i = i64{blockIdx.x} * (blockDim.x / 32) + threadIdx.x / 32; i < rows; i += warps) {
    const int batch_head = static_cast<int>(i / p.sq);
    const int row = static_cast<int>(i - i64{batch_head} * p.sq);
    const int batch = batch_head / p.heads;
    const int head = batch_head - batch * p.heads;
    Bf16* const o = p.o + batch * p.o_stride.batch + head * p.o_stride.head + row * p.o_stride.row;
    for (int col = lane * 8; col < p.dv; col += 32 * 8) {
      *reinterpret_cast<uint4*>(o + col) = make_uint4(0, 0, 0, 0);
    }
    if (p.lse != nullptr && lane == 0) {
      p.lse[batch * p.lse_stride.batch + head * p.lse_stride.head + row * p.lse_stride.row] =
          -kInfinity;
    }
  }
}

const void* fill_kernel() { return reinterpret_cast<const void*>(&fill_entry); }

}  // namespace volley::cuda
