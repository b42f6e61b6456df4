// SPDX-License-Identifier: BSD-3-Clause
//
// The tensors of a call with copies on the GPU, and what a run of a plan needs beside them.
#pragma once

#include <array>

#include "device_memory.h"
#include "roles.h"
#include "tensor.h"
#include "volley/volley.h"

namespace volley::cli {

using Tensors = std::array<check::HostTensor, core::kRoleCount>;

// `options` with the tensors, which must stay where they are.
volley_problem problem_of(const Tensors& tensors, volley_problem options);

volley_buffers buffers_of(const volley_problem& problem);

check::HostTensor make_workspace(const volley_plan* plan);  // poisoned

// On the first GPU. Throws when there is none, or it has not enough memory.
class DeviceTensors {
 public:
  explicit DeviceTensors(const Tensors& host);

  volley_problem problem(volley_problem options) const;
  void download(core::Role role, check::HostTensor* host) const;

 private:
  std::array<check::DeviceCopy, core::kRoleCount> copies_;
};

check::DeviceCopy upload(const check::HostTensor& tensor, const char* name);

}  // namespace volley::cli
