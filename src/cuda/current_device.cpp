// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/current_device.h"

namespace volley::cuda {

core::Status device_error(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // it is reported here: the caller's next question must not find it again
  return core::make_status(VOLLEY_DEVICE_ERROR, VOLLEY_REASON_DEVICE, "{} failed: {} ({})", what,
                           cudaGetErrorString(error), cudaGetErrorName(error));
}

core::Status load_kernel(const void* kernel, int shared, const char* what) {
  VOLLEY_TRY(device_error(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared), what));
  cudaFuncAttributes attributes{};  // asking for them loads the kernel
  return device_error(cudaFuncGetAttributes(&attributes, kernel), what);
}

}  // namespace volley::cuda
