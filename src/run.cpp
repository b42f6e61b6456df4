// SPDX-License-Identifier: BSD-3-Clause
#include "run.h"

#include <algorithm>
#include <cstring>

namespace volley::core {
namespace {

constexpr uint64_t kWorkspaceAlignment = 256;

Status read_struct(const volley_buffers& in, volley_buffers* out) {
  volley_buffers_init(out);
  const uint64_t known = sizeof *out;
  // A size that ends inside a pointer would make a wild one of its first half.
  const bool whole = in.size % sizeof(void*) == 0;
  if (!whole || in.size < offsetof(volley_buffers, q) || in.size > 64 * known) {
    return invalid(VOLLEY_REASON_STRUCT,
                   "buffers.size is {}, wanted {}: fill the struct with volley_buffers_init first",
                   in.size, known);
  }
  const char* bytes = reinterpret_cast<const char*>(&in);
  if (in.size > known && std::any_of(bytes + known, bytes + in.size, [](char c) { return c; })) {
    return invalid(VOLLEY_REASON_STRUCT,
                   "buffers holds tensors that this library (ABI {}) does not know",
                   VOLLEY_ABI_VERSION);
  }
  std::memcpy(out, &in, std::min(in.size, known));
  return {};
}

Status check_buffer(const Plan& plan, const RoleInfo& role, const void* data) {
  const Tensor& tensor = plan.problem[role.role];
  if (!tensor.present) {
    if (data == nullptr) return {};
    return invalid(VOLLEY_REASON_OPTION, "{} has a buffer, but the plan's problem has no {}",
                   role.name, role.name);
  }
  if (data == nullptr) {
    if (tensor.empty()) return {};
    return invalid(VOLLEY_REASON_NULL, "{} is NULL, the plan's problem has it", role.name);
  }
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (address % static_cast<uint64_t>(tensor.alignment) != 0) {
    return invalid(VOLLEY_REASON_ALIGNMENT,
                   "{} at {:#x} is not aligned to {} bytes, which the plan assumes", role.name,
                   address, tensor.alignment);
  }
  return {};
}

Status check_workspace(const Plan& plan, Workspace workspace) {
  if (plan.workspace == 0) return {};
  if (workspace.data == nullptr || workspace.size < plan.workspace) {
    return invalid(VOLLEY_REASON_WORKSPACE, "workspace has {} bytes, the plan needs {}",
                   workspace.data == nullptr ? 0 : workspace.size, plan.workspace);
  }
  const auto address = reinterpret_cast<uintptr_t>(workspace.data);
  if (address % kWorkspaceAlignment != 0) {
    return invalid(VOLLEY_REASON_ALIGNMENT, "workspace at {:#x} is not aligned to {} bytes",
                   address, kWorkspaceAlignment);
  }
  return {};
}

}  // namespace

Status run_plan(const Plan& plan, const volley_buffers& buffers, Workspace workspace,
                void* stream) {
  if (!plan.device.present) {
    return invalid(VOLLEY_REASON_DEVICE,
                   "the plan was made for the profile {}, which is not this machine: it cannot run",
                   plan.device.name);
  }
  volley_buffers full;
  VOLLEY_TRY(read_struct(buffers, &full));
  Buffers by_role;
  for (const RoleInfo& role : kRoles) {
    void* data = nullptr;
    std::memcpy(&data, reinterpret_cast<const char*>(&full) + role.buffers_offset, sizeof data);
    VOLLEY_TRY(check_buffer(plan, role, data));
    by_role.data[static_cast<size_t>(role.role)] = data;
  }
  VOLLEY_TRY(check_workspace(plan, workspace));
  return backend_of(plan.backend).run(plan, by_role, workspace, stream);
}

}  // namespace volley::core
