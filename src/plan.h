// SPDX-License-Identifier: BSD-3-Clause
//
// Plan: what will run, as a value: equality, text, JSON. make_plan picks the backend, and keeps a
// reason for each faster one that it passed over. It depends on geometry and device only. Read
// backend.h next, run.h last.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device.h"
#include "problem.h"
#include "status.h"

namespace volley::core {

// A backend that the plan did not take, and why.
struct PassedOver {
  int32_t backend = 0;
  int32_t code = 0;    // VOLLEY_NOT_OFFERED or VOLLEY_NOT_BUILT
  int32_t reason = 0;  // VOLLEY_REASON_*
  std::string sentence;

  bool operator==(const PassedOver&) const = default;
};

// What a backend decided. Which fields it uses is its own business; unused ones are 0.
struct Config {
  int32_t row = -1;  // in the backend's table of configs
  std::string name;  // "bf16 d128 causal 128x128, 2 stages"
  int64_t block_m = 0;
  int64_t block_n = 0;
  int32_t stages = 0;
  int64_t smem = 0;     // bytes a block
  int64_t grid = 0;     // blocks, or tasks on the CPU
  int32_t threads = 0;  // of a block, or of the pool on the CPU

  bool operator==(const Config&) const = default;
};

// What a backend computed ahead for its runs. It follows from the rest of the plan: two that differ
// in nothing else are equal.
struct Prepared {
  std::shared_ptr<const void> data;

  bool operator==(const Prepared&) const { return true; }
};

struct Plan {
  Problem problem;
  Device device;
  int32_t backend = VOLLEY_BACKEND_AUTO;
  Config config;
  int32_t splits = 1;
  uint64_t workspace = 0;  // bytes
  std::vector<PassedOver> passed_over;
  Prepared prepared;

  bool operator==(const Plan&) const = default;
};

// device_name empty: the device that the problem's tensors are on.
Status make_plan(const Problem& problem, const std::string& device_name, Plan* out);

std::string plan_text(const Plan& plan);  // several lines, each ended by \n
std::string plan_json(const Plan& plan);
std::string plan_line(const Plan& plan);  // one line, for the log

}  // namespace volley::core
