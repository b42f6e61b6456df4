// SPDX-License-Identifier: BSD-3-Clause
//
// Kernels that call each wrapper of ptx/core.cuh, ptx/async.cuh and ptx/mma.cuh and write down what
// it did.
#include <cuda_runtime_api.h>

#include "cuda/ptx/async.cuh"
#include "cuda/ptx/core.cuh"
#include "cuda/types.h"
#include "mma_probes.cuh"
#include "ptx_probes.h"

namespace volley::test {
namespace {

using namespace cuda;  // NOLINT: all of this file is about it

__device__ void probe_arithmetic(Arithmetic& out) {
  const float zero = static_cast<float>(threadIdx.y);  // 0, unknown to the compiler
  out.exp2_zero = ptx::exp2(zero);
  out.exp2_minus_infinity = ptx::exp2(zero - __builtin_huge_valf());
  out.exp2_three = ptx::exp2(zero + 3);
  out.log2_eight = ptx::log2(zero + 8);
  out.reciprocal_four = ptx::reciprocal(zero + 4);
  out.packed = ptx::pack_bf16(zero + 1, zero - 2);
}

__device__ void probe_warp(Warp& out) {
  const int lane = threadIdx.x % 32;
  out.uniform = ptx::uniform(7);
  out.any_of_one = ptx::any(lane == 5);
  out.any_of_none = ptx::any(lane == 32);
  out.shuffled[lane] = ptx::shuffle_xor(lane, 1);
  if (ptx::elect_one()) atomicAdd(&out.elected, 1);
}

__device__ void probe_phases(Phases& out, ptx::Barrier& barrier) {
  ptx::init(barrier, 2);
  ptx::fence_barrier_init();
  out.fresh_parity_1 = ptx::try_wait(barrier, 1);
  out.fresh_parity_0 = ptx::try_wait(barrier, 0);
  ptx::arrive(barrier);
  out.first_arrival_of_two = ptx::try_wait(barrier, 0);
  ptx::arrive_expecting(barrier, 0);
  out.second_arrival_of_two = ptx::try_wait(barrier, 0);
}

// Two warpgroups. Barrier 1 hands a value from warp 0 to warp 1.
__global__ void __launch_bounds__(256, 1) probe_kernel(Probes* out) {
  __shared__ ptx::Barrier barrier;
  __shared__ volatile int handed;
  const int warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    probe_arithmetic(out->arithmetic);
    probe_phases(out->phases, barrier);
    handed = 42;
  }
  __syncwarp();
  if (warp == 0) {
    probe_warp(out->warp);
    ptx::named_arrive(1, 64);
  } else if (warp == 1) {
    ptx::named_sync(1, 64);
    if (threadIdx.x == 32) out->warp.seen_by_second = handed;
  }
  __syncthreads();
  if (threadIdx.x / 128 == 0) {
    ptx::lower_registers<24>();
  } else {
    ptx::raise_registers<240>();
    if (threadIdx.x == 128) out->warp.after_reallocation = 1;
  }
}

__global__ void load_kernel(const __grid_constant__ TensorMap map, int row, int head, int batch,
                            int elements, Bits16* out) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  auto* const tile = reinterpret_cast<Bits16*>(dynamic_shared);
  __shared__ ptx::Barrier full;
  if (threadIdx.x == 0) {
    ptx::prefetch(map);
    ptx::init(full, 1);
    ptx::fence_barrier_init();
    ptx::arrive_expecting(full, elements * 2);
    const int chunk_elements = elements / 2;  // of two chunks of 64 columns
    ptx::load_box(tile, map, full, 0, row, head, batch);
    ptx::load_box(tile + chunk_elements, map, full, kChunk, row, head, batch);
  }
  __syncthreads();
  ptx::wait(full, 0);
  for (int i = threadIdx.x; i < elements; i += blockDim.x) out[i] = tile[i];
}

// One of the structs of mma_probes.h.
template <class Probe>
__global__ void __launch_bounds__(Probe::kThreads) one_probe_kernel(Probe* x) {
  probe(*x);
}

bool finish(std::string* error) {
  const cudaError_t result = cudaDeviceSynchronize();
  *error = cudaGetErrorString(result);
  return result == cudaSuccess;
}

}  // namespace

bool run_probes(Probes* out, std::string* error) {
  Probes* device = nullptr;
  cudaMalloc(&device, sizeof *device);
  cudaMemset(device, 0, sizeof *device);
  probe_kernel<<<1, 256>>>(device);
  const bool done = finish(error);
  cudaMemcpy(out, device, sizeof *out, cudaMemcpyDeviceToHost);
  cudaFree(device);
  return done;
}

template <class Probe>
bool run_probe(Probe* probe, std::string* error) {
  Probe* device = nullptr;
  cudaMalloc(&device, sizeof *device);
  cudaMemcpy(device, probe, sizeof *device, cudaMemcpyHostToDevice);
  one_probe_kernel<<<1, Probe::kThreads, Probe::kShared>>>(device);
  const bool done = finish(error);
  cudaMemcpy(probe, device, sizeof *device, cudaMemcpyDeviceToHost);
  cudaFree(device);
  return done;
}

template bool run_probe(LoadedMatrices*, std::string*);
template bool run_probe(Product<Element::kBf16>*, std::string*);
template bool run_probe(Product<Element::kF16>*, std::string*);
template bool run_probe(AsyncCopies*, std::string*);
template bool run_probe(PairedWarps*, std::string*);
template bool run_probe(AtomicSums*, std::string*);
template bool run_probe(WarpWords*, std::string*);
template bool run_probe(Conversions*, std::string*);

bool load_tile(const TensorMap& map, int row, int head, int batch, int elements,
               std::vector<uint16_t>* tile, std::string* error) {
  Bits16* device = nullptr;
  cudaMalloc(&device, elements * sizeof(Bits16));
  load_kernel<<<1, 128, elements * sizeof(Bits16)>>>(map, row, head, batch, elements, device);
  const bool done = finish(error);
  tile->resize(elements);
  cudaMemcpy(tile->data(), device, elements * sizeof(Bits16), cudaMemcpyDeviceToHost);
  cudaFree(device);
  return done;
}

void* upload(const std::vector<uint16_t>& contents) {
  void* device = nullptr;
  cudaMalloc(&device, contents.size() * 2);
  cudaMemcpy(device, contents.data(), contents.size() * 2, cudaMemcpyHostToDevice);
  return device;
}

}  // namespace volley::test
