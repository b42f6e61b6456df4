// SPDX-License-Identifier: BSD-3-Clause
//
// The C ABI: shims over Problem, Plan and run. volley_combine is in combine.cpp, volley_doctor in
// doctor.cpp, the names in names.cpp.
#include "abi.h"

#include <limits>

#include "log.h"
#include "plan_cache.h"
#include "run.h"

using namespace volley::core;

struct volley_plan {
  std::shared_ptr<const Plan> value;
};

namespace {

Status null_argument(const char* name) { return invalid(VOLLEY_REASON_NULL, "{} is NULL", name); }

}  // namespace

int32_t volley_abi_version(void) { return VOLLEY_ABI_VERSION; }

#define VOLLEY_TEXT2(x) #x
#define VOLLEY_TEXT(x) VOLLEY_TEXT2(x)
const char* volley_version(void) {
  return VOLLEY_TEXT(VOLLEY_VERSION_MAJOR) "." VOLLEY_TEXT(VOLLEY_VERSION_MINOR) "." VOLLEY_TEXT(
      VOLLEY_VERSION_PATCH);
}

void volley_problem_init_sized(volley_problem* problem, uint64_t size) {
  if (problem == nullptr) return;
  volley_problem defaults;
  std::memset(&defaults, 0, sizeof defaults);  // NULL pointers and zeros
  defaults.size = size;
  defaults.scale = std::numeric_limits<double>::quiet_NaN();
  defaults.window_left = -1;
  defaults.window_right = -1;
  defaults.q_scale_block = 128;
  defaults.k_scale_block = 128;
  defaults.v_scale_block = 128;
  std::memset(static_cast<void*>(problem), 0, size);
  std::memcpy(static_cast<void*>(problem), &defaults, std::min<uint64_t>(size, sizeof defaults));
}

void volley_buffers_init_sized(volley_buffers* buffers, uint64_t size) {
  if (buffers == nullptr) return;
  std::memset(static_cast<void*>(buffers), 0, size);
  if (size >= sizeof buffers->size) buffers->size = size;
}

int32_t volley_buffers_from_problem_sized(const volley_problem* problem, volley_buffers* buffers,
                                          uint64_t size, volley_error* error) {
  return guarded(error, [&]() -> Status {
    if (problem == nullptr) return null_argument("problem");
    if (buffers == nullptr) return null_argument("buffers");
    volley_buffers_init_sized(buffers, size);
    for (const RoleInfo& role : kRoles) {
      if (role.problem_offset + sizeof(void*) > problem->size) continue;
      if (role.buffers_offset + sizeof(void*) > size) continue;  // a caller of an older header
      const volley_tensor* tensor = nullptr;
      std::memcpy(&tensor, reinterpret_cast<const char*>(problem) + role.problem_offset,
                  sizeof tensor);
      if (tensor == nullptr) continue;
      std::memcpy(reinterpret_cast<char*>(buffers) + role.buffers_offset, &tensor->data,
                  sizeof tensor->data);
    }
    return {};
  });
}

int32_t volley_plan_create(const volley_problem* problem, const char* device, volley_plan** plan,
                           volley_error* error) {
  if (plan != nullptr) *plan = nullptr;
  return guarded(error, [&]() -> Status {
    if (problem == nullptr) return null_argument("problem");
    if (plan == nullptr) return null_argument("plan");
    std::shared_ptr<const Plan> value;
    VOLLEY_TRY(plan_for(*problem, device == nullptr ? "" : device, &value));
    *plan = new volley_plan{std::move(value)};
    return {};
  });
}

void volley_plan_destroy(volley_plan* plan) { delete plan; }

int32_t volley_plan_backend(const volley_plan* plan) {
  return plan == nullptr ? VOLLEY_BACKEND_AUTO : plan->value->backend;
}

int32_t volley_plan_reason(const volley_plan* plan) {
  if (plan == nullptr || plan->value->passed_over.empty()) return VOLLEY_REASON_NONE;
  return plan->value->passed_over.front().reason;
}

uint64_t volley_plan_workspace_size(const volley_plan* plan) {
  return plan == nullptr ? 0 : plan->value->workspace;
}

int32_t volley_plan_equal(const volley_plan* a, const volley_plan* b) {
  return a != nullptr && b != nullptr && *a->value == *b->value;
}

uint64_t volley_plan_describe(const volley_plan* plan, int32_t format, char* buffer,
                              uint64_t capacity) {
  try {
    if (plan == nullptr) return copy_text("", buffer, capacity);
    return copy_text(
        format == VOLLEY_FORMAT_JSON ? plan_json(*plan->value) : plan_text(*plan->value), buffer,
        capacity);
  } catch (...) {  // out of memory: nothing to describe with
    return copy_text("", buffer, capacity);
  }
}

int32_t volley_run(const volley_plan* plan, const volley_buffers* buffers, void* workspace,
                   uint64_t workspace_size, void* stream, volley_error* error) {
  return guarded(error, [&]() -> Status {
    if (plan == nullptr) return null_argument("plan");
    if (buffers == nullptr) return null_argument("buffers");
    return run_plan(*plan->value, *buffers, {workspace, workspace_size}, stream);
  });
}

void volley_set_log(volley_log_callback callback, void* user) { set_log(callback, user); }
