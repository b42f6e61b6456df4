// SPDX-License-Identifier: BSD-3-Clause
//
// See device_tensors.h.
#include "device_tensors.h"

#include "call.h"

namespace volley::cli {
namespace {

void set_tensor(core::Role role, const volley_tensor* tensor, volley_problem* problem) {
  auto* field = reinterpret_cast<char*>(problem) + core::info(role).problem_offset;
  *reinterpret_cast<const volley_tensor**>(field) = tensor;
}

}  // namespace

volley_problem problem_of(const Tensors& tensors, volley_problem options) {
  for (const core::RoleInfo& role : core::kRoles) {
    set_tensor(role.role, tensors[static_cast<size_t>(role.role)].view(), &options);
  }
  return options;
}

volley_buffers buffers_of(const volley_problem& problem) {
  volley_buffers buffers;
  volley_error error{};
  if (volley_buffers_from_problem(&problem, &buffers, &error) != VOLLEY_OK) throw_error(error);
  return buffers;
}

check::HostTensor make_workspace(const volley_plan* plan) {
  const auto bytes = static_cast<int64_t>(volley_plan_workspace_size(plan));
  return {VOLLEY_F64, {(bytes + 7) / 8}};  // HostTensor aligns to what a workspace wants
}

check::DeviceCopy upload(const check::HostTensor& tensor, const char* name) {
  check::DeviceCopy copy(tensor);
  if (copy.view() == nullptr) failure("the GPU has no memory for {}", name);
  return copy;
}

DeviceTensors::DeviceTensors(const Tensors& host) {
  std::string why;
  if (!check::gpu_available(&why)) failure("{}", why);
  for (const core::RoleInfo& role : core::kRoles) {
    const auto i = static_cast<size_t>(role.role);
    if (host[i].present()) copies_[i] = upload(host[i], role.name);
  }
}

volley_problem DeviceTensors::problem(volley_problem options) const {
  for (const core::RoleInfo& role : core::kRoles) {
    set_tensor(role.role, copies_[static_cast<size_t>(role.role)].view(), &options);
  }
  return options;
}

void DeviceTensors::download(core::Role role, check::HostTensor* host) const {
  copies_[static_cast<size_t>(role)].download(host);
}

}  // namespace volley::cli
