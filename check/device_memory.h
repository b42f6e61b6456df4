// SPDX-License-Identifier: BSD-3-Clause
//
// Copies of HostTensors on the GPU, margins and gaps included, so that a GPU backend meets the same
// poison as the CPU. The driver is looked up at run time: no CUDA toolkit is needed to build this.
#pragma once

#include <cstdint>
#include <string>

#include "tensor.h"

namespace volley::check {

// Is there a GPU that answers? If not, *why (may be NULL) says so in one sentence.
bool gpu_available(std::string* why);

// Waits for everything enqueued; empty when all went well, else the driver's error.
std::string gpu_synchronize();

// A device twin of a HostTensor, on device 0. Needs gpu_available().
class DeviceCopy {
 public:
  DeviceCopy() = default;
  explicit DeviceCopy(const HostTensor& host);  // uploads all of its storage
  DeviceCopy(DeviceCopy&& other) noexcept;
  DeviceCopy& operator=(DeviceCopy&& other) noexcept;
  ~DeviceCopy();

  const volley_tensor* view() const { return memory_ != 0 ? &tensor_ : nullptr; }
  void* data() const { return tensor_.data; }
  bool download(HostTensor* host) const;  // the storage of the tensor it was made of

 private:
  uint64_t memory_ = 0;
  volley_tensor tensor_{};
};

}  // namespace volley::check
