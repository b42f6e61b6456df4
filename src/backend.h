// SPDX-License-Identifier: BSD-3-Clause
//
// Backend: what the plan and the run need to know of a path that computes attention. Each lives in
// its own folder and defines one function that returns its Backend; backend.cpp lists them.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "plan.h"

namespace volley::core {

// The buffers of one run by role; NULL where absent.
struct Buffers {
  std::array<void*, kRoleCount> data{};

  void* operator[](Role role) const { return data[static_cast<size_t>(role)]; }
  template <class T>
  T* as(Role role) const {
    return static_cast<T*>((*this)[role]);
  }
};

struct Workspace {
  void* data = nullptr;
  uint64_t size = 0;
};

struct Backend {
  int32_t id;           // VOLLEY_BACKEND_*
  int32_t device_type;  // whose memory it works on
  bool built;           // false: this build lacks it, and it answers NOT_BUILT

  // The features table has agreed already. Fills plan->config, splits and workspace from
  // plan->problem and plan->device, or answers NOT_OFFERED with a reason. Pure: no driver call.
  Status (*plan)(Plan* plan);

  // Makes ready what run needs: loads the kernel, fills plan->prepared. Called once for a device
  // that is present.
  Status (*prepare)(Plan* plan);

  // plan is of this backend; buffers are complete and aligned; the workspace is large enough. Any
  // size may be zero.
  Status (*run)(const Plan& plan, const Buffers& buffers, Workspace workspace, void* stream);
};

// Fastest first.
std::span<const Backend> backends();
const Backend& backend_of(int32_t id);  // id is one of VOLLEY_BACKEND_*, not AUTO

// Defined by the backends, whether built or not.
Backend reference_backend();  // cpu/reference.cpp
Backend cpu_backend();        // cpu/attention.cpp
Backend sm80_backend();       // cuda/sm80_backend.cpp
Backend sm90_backend();       // cuda/sm90_backend.cpp

}  // namespace volley::core
