// SPDX-License-Identifier: BSD-3-Clause
//
// Calls of the library from the command: its status becomes the command's Error, a plan owns
// itself, a description becomes a string.
#pragma once

#include <memory>
#include <string>

#include "error.h"
#include "volley/volley.h"

namespace volley::cli {

// The machine's fault or ours: 1. The request's: 2.
inline ExitCode exit_code_of(int32_t status) {
  switch (status) {
    case VOLLEY_OK: return kExitOk;
    case VOLLEY_INVALID_ARGUMENT:
    case VOLLEY_NOT_OFFERED:
    case VOLLEY_NOT_BUILT: return kExitBadInput;
    default: return kExitFailure;
  }
}

[[noreturn]] inline void throw_error(const volley_error& error) {
  throw Error(exit_code_of(error.code),
              fmt::format("{} [{}, {}]", error.message, volley_status_name(error.code),
                          volley_reason_name(error.reason)));
}

struct PlanDeleter {
  void operator()(volley_plan* plan) const { volley_plan_destroy(plan); }
};
using PlanHandle = std::unique_ptr<volley_plan, PlanDeleter>;

// An empty handle and *error filled when there is no plan.
inline PlanHandle try_plan(const volley_problem& problem, const std::string& device,
                           volley_error* error) {
  volley_plan* plan = nullptr;
  volley_plan_create(&problem, device.c_str(), &plan, error);
  return PlanHandle(plan);
}

inline std::string describe(const volley_plan* plan, int32_t format) {
  std::string text(volley_plan_describe(plan, format, nullptr, 0), '\0');
  volley_plan_describe(plan, format, text.data(), text.size() + 1);
  return text;
}

}  // namespace volley::cli
