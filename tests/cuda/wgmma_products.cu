// SPDX-License-Identifier: BSD-3-Clause
//
// One warpgroup multiplies tiles that it stores itself, element by element, by the swizzle's
// definition. So what layout.cuh says of tiles, descriptors and fragments is checked against
// something other than itself. Every N of ptx/wgmma.cuh is instantiated here.
#include <cuda_runtime_api.h>

#include "cuda/common/fragment.cuh"
#include "cuda/common/layout.cuh"
#include "wgmma_products.h"

namespace volley::test {
namespace {

using namespace cuda;  // NOLINT: all of this file is about it

// Where (row, col) of a tile [columns / 64][rows][64] lies: 16-byte groups of a 128-byte row are
// exchanged by the row's number modulo 8.
__device__ int swizzled(int rows, int row, int col) {
  const int group = col % kChunk / 8 ^ row % 8;
  return col / kChunk * rows * kChunk + row * kChunk + group * 8 + col % 8;
}

template <int kN>
struct alignas(1024) Tiles {
  static constexpr int kColumns = (kN + kChunk - 1) / kChunk * kChunk;
  Bits16 a[kM * kK];
  alignas(1024) Bits16 b[kColumns * kK];
};

template <int kN>
__device__ void store_tiles(Tiles<kN>& tiles, const Bits16* a, const Bits16* b, bool b_k_major) {
  for (int i = threadIdx.x; i < kM * kK; i += blockDim.x) {
    tiles.a[swizzled(kM, i / kK, i % kK)] = a[i];
  }
  for (int i = threadIdx.x; i < kK * kN; i += blockDim.x) {
    const int k = i / kN, n = i % kN;
    tiles.b[b_k_major ? swizzled(kN, n, k) : swizzled(kK, k, n)] = b[i];
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}

template <Element kElement, int kN, Form kForm>
__device__ void product(float (&d)[kN / 2], const Tiles<kN>& tiles, const Bits16* a,
                        bool accumulate) {
  constexpr bool kFromRegisters = kForm == Form::kRsK || kForm == Form::kRsMN;
  constexpr ptx::Major kMajor =
      kForm == Form::kSsK || kForm == Form::kRsK ? ptx::Major::kK : ptx::Major::kMN;
  const Accumulator at{static_cast<int>(threadIdx.x)};
  const u64 a_tile = descriptor(ptx::shared_address(tiles.a), 0);
  const u64 b_tile = descriptor(ptx::shared_address(tiles.b), kK * kChunk);
  u32 fragments[kK / 16 * AFragment::kRegisters];
#pragma unroll
  for (int i = 0; i < kK / 16 * AFragment::kRegisters; ++i) {
    const int from = AFragment::source(i / AFragment::kRegisters, i % AFragment::kRegisters);
    const Bits16* const pair = a + at.row(from) * kK + at.col(from);
    fragments[i] = pair[0].bits | static_cast<u32>(pair[1].bits) << 16;
  }
  ptx::touch(d);
  ptx::touch(fragments);
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kK / 16; ++step) {
    const u64 b =
        b_tile + (kMajor == ptx::Major::kK ? k_major_step<kN>(step) : mn_major_step(step));
    const bool add = step > 0 || accumulate;
    if constexpr (kFromRegisters) {
      const u32* const f = fragments + step * AFragment::kRegisters;
      ptx::Wgmma<kElement, kN>::template rs<kMajor>(d, f[0], f[1], f[2], f[3], b, add);
    } else {
      ptx::Wgmma<kElement, kN>::template ss<kMajor>(d, a_tile + k_major_step<kM>(step), b, add);
    }
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  ptx::touch(d);
}

template <Element kElement, int kN, Form kForm>
__global__ void __launch_bounds__(128)
    multiply_kernel(const Bits16* a, const Bits16* b, float* out, bool accumulate) {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  auto& tiles = *reinterpret_cast<Tiles<kN>*>(dynamic_shared);
  store_tiles(tiles, a, b, kForm == Form::kSsK || kForm == Form::kRsK);

  const Accumulator at{static_cast<int>(threadIdx.x)};
  float d[kN / 2];
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) d[i] = out[at.row(i) * kN + at.col(i)];
  product<kElement, kN, kForm>(d, tiles, a, accumulate);
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) out[at.row(i) * kN + at.col(i)] = d[i];
}

struct Entry {
  const void* kernel;
  int shared;
};

template <Element kElement, int kN>
Entry entry_of(Form form) {
  constexpr int kShared = sizeof(Tiles<kN>);
  switch (form) {
    case Form::kSsK:
      return {reinterpret_cast<const void*>(&multiply_kernel<kElement, kN, Form::kSsK>), kShared};
    case Form::kSsMN:
      return {reinterpret_cast<const void*>(&multiply_kernel<kElement, kN, Form::kSsMN>), kShared};
    case Form::kRsK:
      return {reinterpret_cast<const void*>(&multiply_kernel<kElement, kN, Form::kRsK>), kShared};
    default:
      return {reinterpret_cast<const void*>(&multiply_kernel<kElement, kN, Form::kRsMN>), kShared};
  }
}

template <Element kElement, int kN = 256>
Entry find(int n, Form form) {
  if constexpr (kN == 0) {
    return {};
  } else {
    return n == kN ? entry_of<kElement, kN>(form) : find<kElement, kN - 16>(n, form);
  }
}

class DeviceArray {
 public:
  DeviceArray(const void* host, size_t bytes) {
    cudaMalloc(&data, bytes);
    cudaMemcpy(data, host, bytes, cudaMemcpyHostToDevice);
  }
  ~DeviceArray() { cudaFree(data); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  void* data = nullptr;
};

}  // namespace

bool multiply(Element element, int n, Form form, bool accumulate, const std::vector<uint16_t>& a,
              const std::vector<uint16_t>& b, std::vector<float>* d, std::string* error) {
  const Entry entry =
      element == Element::kBf16 ? find<Element::kBf16>(n, form) : find<Element::kF16>(n, form);
  DeviceArray device_a(a.data(), a.size() * 2), device_b(b.data(), b.size() * 2);
  DeviceArray device_d(d->data(), d->size() * 4);
  void* arguments[] = {&device_a.data, &device_b.data, &device_d.data, &accumulate};
  cudaFuncSetAttribute(entry.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, entry.shared);
  cudaLaunchKernel(entry.kernel, dim3(1), dim3(128), arguments, entry.shared, nullptr);
  cudaMemcpy(d->data(), device_d.data, d->size() * 4, cudaMemcpyDeviceToHost);
  const cudaError_t result = cudaGetLastError();
  *error = cudaGetErrorString(result);
  return result == cudaSuccess;
}

}  // namespace volley::test
