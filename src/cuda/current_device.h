// SPDX-License-Identifier: BSD-3-Clause
//
// What the backends share of the CUDA run time.
#pragma once

#include <cuda_runtime_api.h>

#include "status.h"

namespace volley::cuda {

// Makes a device current for as long as this lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    error_ = cudaGetDevice(&previous_);
    if (error_ == cudaSuccess && device != previous_) {
      error_ = cudaSetDevice(device);
      restore_ = error_ == cudaSuccess;
    }
  }
  ~CurrentDevice() {
    if (restore_) cudaSetDevice(previous_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  core::Status status() const {
    if (error_ == cudaSuccess) return {};
    return core::make_status(VOLLEY_DEVICE_ERROR, VOLLEY_REASON_DEVICE,
                             "the plan's device cannot be made current: {}",
                             cudaGetErrorString(error_));
  }

 private:
  int previous_ = 0;
  bool restore_ = false;
  cudaError_t error_ = cudaSuccess;
};

// OK, or what the run time said of `what`.
core::Status device_error(cudaError_t error, const char* what);

// Loads a kernel into the current device, so that its launch can be captured, and allows it so many
// bytes of dynamic shared memory.
core::Status load_kernel(const void* kernel, int shared, const char* what);

}  // namespace volley::cuda
