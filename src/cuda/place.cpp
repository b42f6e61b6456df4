// SPDX-License-Identifier: BSD-3-Clause
//
// A question for each buffer in each run, asked of the driver: an address that was right a moment
// ago may since belong to another device, so no answer is remembered. The common case takes one
// cheap call; whatever it does not settle is looked up through the runtime, which knows more kinds
// of memory.
#include "cuda/place.h"

#include <cuda.h>

#include "cuda/driver.h"

namespace volley::cuda {
namespace {

using core::Role;
using PointerAttributes = decltype(&cuPointerGetAttributes);

bool surely_on(int device, const void* data) {
  static const auto ask = driver_function<PointerAttributes>("cuPointerGetAttributes", 7000);
  if (ask == nullptr) return false;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  unsigned type = 0;
  int ordinal = -1;
  void* answers[] = {&type, &ordinal};
  return ask(2, attributes, answers, reinterpret_cast<CUdeviceptr>(data)) == CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_DEVICE && ordinal == device;
}

core::Status look_up(const core::Device& device, const char* name, const void* data) {
  cudaPointerAttributes at{};
  if (const cudaError_t error = cudaPointerGetAttributes(&at, data); error != cudaSuccess) {
    cudaGetLastError();  // reported here
    return core::make_status(VOLLEY_DEVICE_ERROR, VOLLEY_REASON_DEVICE,
                             "{} cannot be looked up: {}", name, cudaGetErrorString(error));
  }
  if (at.type == cudaMemoryTypeManaged) return {};
  if (at.type != cudaMemoryTypeDevice) {
    return core::invalid(VOLLEY_REASON_DEVICE, "{} is in host memory, the plan's device is {}",
                         name, device.name);
  }
  if (at.device != device.id) {
    return core::invalid(VOLLEY_REASON_DEVICE, "{} is on cuda:{}, the plan's device is {}", name,
                         at.device, device.name);
  }
  return {};
}

}  // namespace

core::Status check_places(const core::Device& device, const core::Buffers& buffers,
                          core::Workspace workspace) {
  const auto check = [&](const char* name, const void* data) -> core::Status {
    if (data == nullptr || surely_on(device.id, data)) return {};
    return look_up(device, name, data);
  };
  for (const core::RoleInfo& role : core::kRoles) VOLLEY_TRY(check(role.name, buffers[role.role]));
  return workspace.size > 0 ? check("workspace", workspace.data) : core::Status{};
}

}  // namespace volley::cuda
