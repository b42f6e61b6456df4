// SPDX-License-Identifier: BSD-3-Clause
//
// make_plan: device, forced backend, then the backends of that device, fastest first; the first
// that agrees runs, and each one before it leaves its reason. How a plan is printed: plan_text.cpp.
#include "plan.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "backend.h"
#include "log.h"
#include "offers.h"

namespace volley::core {
namespace {

Status choose_device(const Problem& problem, const std::string& name, Device* out) {
  const std::string own = problem.device_type == VOLLEY_DEVICE_CUDA
                              ? fmt::format("cuda:{}", problem.device_id)
                              : std::string("cpu");
  VOLLEY_TRY(find_device(name.empty() ? own : name, out));
  if (out->present && out->name != own) {
    return invalid(VOLLEY_REASON_DEVICE, "device is {}, but the tensors are on {}", out->name, own);
  }
  return {};
}

// The option beats VOLLEY_BACKEND, which beats nothing.
Status forced_backend(const Problem& problem, int32_t* out) {
  *out = problem.backend;
  const char* value = std::getenv("VOLLEY_BACKEND");
  if (problem.backend != VOLLEY_BACKEND_AUTO || value == nullptr || *value == '\0') return {};
  for (int32_t id = VOLLEY_BACKEND_AUTO; id <= VOLLEY_BACKEND_SM90; ++id) {
    if (std::string_view(value) == volley_backend_name(id)) {
      *out = id;
      return {};
    }
  }
  return invalid(VOLLEY_REASON_OPTION,
                 "VOLLEY_BACKEND is \"{}\", wanted auto, reference, cpu, sm80 or sm90", value);
}

// Asks one backend; on success `plan` is complete but for passed_over.
Status ask(const Backend& backend, Plan* plan) {
  const char* name = volley_backend_name(backend.id);
  if (backend.device_type != plan->device.type) {
    return not_offered(VOLLEY_REASON_DEVICE, "{} works on {} memory, but the device is {}", name,
                       backend.device_type == VOLLEY_DEVICE_CPU ? "host" : "CUDA",
                       plan->device.name);
  }
  VOLLEY_TRY(check_offer(plan->problem, backend.id));
  if (!backend.built && plan->device.present) {
    return make_status(VOLLEY_NOT_BUILT, VOLLEY_REASON_NOT_BUILT,
                       "{} is not in this build: it was made without a CUDA toolkit", name);
  }
  plan->backend = backend.id;
  return backend.plan(plan);
}

// What make_plan answers when no backend agreed: the fastest one's reason, and every sentence.
Status refusal(const std::vector<PassedOver>& passed_over) {
  Status status = make_status(VOLLEY_NOT_BUILT, VOLLEY_REASON_NOT_BUILT, "no backend runs here");
  std::string sentences;
  for (const PassedOver& entry : passed_over) {
    if (entry.code == VOLLEY_OK) continue;  // another was asked for
    sentences += (sentences.empty() ? "" : "; ") + entry.sentence;
    if (status.code != VOLLEY_NOT_OFFERED && entry.code == VOLLEY_NOT_OFFERED) {
      status.code = entry.code;
      status.reason = entry.reason;
    }
  }
  if (!sentences.empty()) status.message = sentences;
  return status;
}

Status choose_backend(int32_t forced, Plan* plan) {
  std::vector<PassedOver> passed_over;
  for (const Backend& backend : backends()) {
    if (forced != VOLLEY_BACKEND_AUTO && backend.id != forced) {
      if (backend.device_type != plan->device.type) continue;
      passed_over.push_back({backend.id, VOLLEY_OK, VOLLEY_REASON_NOT_CHOSEN,
                             fmt::format("{} was asked for", volley_backend_name(forced))});
      continue;
    }
    if (forced == VOLLEY_BACKEND_AUTO && backend.device_type != plan->device.type) continue;
    Plan candidate = *plan;
    Status status = ask(backend, &candidate);
    if (status.ok()) {
      *plan = std::move(candidate);
      plan->passed_over = std::move(passed_over);
      return {};
    }
    if (status.code != VOLLEY_NOT_OFFERED && status.code != VOLLEY_NOT_BUILT) return status;
    passed_over.push_back({backend.id, status.code, status.reason, status.message});
  }
  return refusal(passed_over);
}

}  // namespace

Status make_plan(const Problem& problem, const std::string& device_name, Plan* out) {
  *out = Plan{};
  out->problem = problem;
  VOLLEY_TRY(choose_device(problem, device_name, &out->device));
  int32_t forced = VOLLEY_BACKEND_AUTO;
  VOLLEY_TRY(forced_backend(problem, &forced));
  VOLLEY_TRY(choose_backend(forced, out));
  if (out->device.present) VOLLEY_TRY(backend_of(out->backend).prepare(out));
  if (log_wanted()) log_line(plan_line(*out));
  return {};
}

}  // namespace volley::core
