// SPDX-License-Identifier: BSD-3-Clause
//
// Functions of the CUDA driver, looked up through the runtime at run time: the library has no link
// to libcuda and loads on machines without a driver.
#pragma once

#include <cuda_runtime_api.h>

namespace volley::cuda {

// NULL where the driver has no such function of that version (12000 for 12.0).
template <class Function>
Function driver_function(const char* name, [[maybe_unused]] unsigned version) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &found);
#endif
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<Function>(function);
}

}  // namespace volley::cuda
