// SPDX-License-Identifier: BSD-3-Clause
//
// Device: what hardware a plan is made for. Either read off this machine (the driver is looked up
// at run time, so the library loads where there is none) or a profile of a machine that is not
// here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "status.h"

namespace volley::core {

struct Device {
  std::string name;     // "cpu", "cuda:0", or the profile's name: "h200"
  std::string product;  // "NVIDIA H200"
  int32_t type = VOLLEY_DEVICE_CPU;
  int32_t id = 0;
  bool present = false;  // false: a profile; plans for it cannot be run
  int32_t arch = 0;      // compute capability as major * 10 + minor; 0 on the CPU
  int32_t sms = 0;
  int64_t smem_per_block = 0;  // bytes that a block may opt in to
  int64_t smem_per_sm = 0;
  int64_t l2_bytes = 0;
  int32_t driver = 0;  // CUDA version of the driver, 13000 for 13.0; 0 if unknown

  bool operator==(const Device&) const = default;
};

// name: "cpu", "cuda:N", or a profile ("h200", "h100", "a100", "l40s"). NO_DEVICE when cuda:N is
// not here, INVALID_ARGUMENT for an unknown name.
Status find_device(const std::string& name, Device* out);

// Every device of this machine, the CPU first. Never fails: a driver that does not answer counts
// as no GPU; `driver_problem` then says why in one sentence (empty when there is simply none).
std::vector<Device> list_devices(std::string* driver_problem);

const std::vector<Device>& device_profiles();

}  // namespace volley::core
