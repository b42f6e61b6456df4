// SPDX-License-Identifier: BSD-3-Clause
//
// Facts about this machine's CPU and memory, for doctor.cpp: nothing depends on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace volley::core {

struct Host {
  std::string cpu_model;              // "unknown" where the system does not say
  std::string architecture;           // "x86_64"
  std::vector<std::string> features;  // the instruction sets that matter here: "avx2", "fma"
  int32_t cores = 0;                  // that this process may use
  uint64_t memory_bytes = 0;
  uint64_t free_bytes = 0;
};

Host read_host();

}  // namespace volley::core
