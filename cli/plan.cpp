// SPDX-License-Identifier: BSD-3-Clause
//
// `volley plan`: what would run for a geometry given by flags, on this machine or on one that is
// not here, and why no faster backend does. Nothing is computed.
#include <memory>

#include "call.h"
#include "cli11.h"
#include "print.h"
#include "problem_flags.h"

namespace volley::cli {
namespace {

struct PlanFlags {
  ProblemFlags problem;
  std::string device;
  bool json = false;
};

PlanHandle plan_on(const PlanFlags& flags, const std::string& device, volley_error* error) {
  const int32_t type = device == "cpu" ? VOLLEY_DEVICE_CPU : VOLLEY_DEVICE_CUDA;
  return try_plan(make_geometry(flags.problem, type)->problem, device, error);
}

ExitCode plan(const PlanFlags& flags) {
  volley_error error{};
  PlanHandle plan = plan_on(flags, flags.device.empty() ? "cuda:0" : flags.device, &error);
  if (plan == nullptr && flags.device.empty() && error.code == VOLLEY_NO_DEVICE) {
    plan = plan_on(flags, "cpu", &error);
  }
  if (plan == nullptr) throw_error(error);
  print(describe(plan.get(), flags.json ? VOLLEY_FORMAT_JSON : VOLLEY_FORMAT_TEXT));
  return kExitOk;
}

constexpr const char* kFooter =
    "Examples:\n"
    "  volley plan --sq 4096 --hq 32 --hk 8 --causal --device h200\n"
    "  volley plan --dtype fp16 --d 64 --row-padding 1 --device h200\n"
    "  volley plan --varlen --b 8 --sq 1024 --softcap 30 --device cpu --json\n"
    "\n"
    "Exit status: 0 there is a plan; 1 the device is not here; 2 bad usage, or no backend offers\n"
    "this (the sentence says why).";

}  // namespace

void add_plan(CLI::App& app, Action* action) {
  CLI::App* command = app.add_subcommand("plan", "Say what would run for a geometry, and why");
  command->footer(kFooter);
  auto flags = std::make_shared<PlanFlags>();
  add_problem_flags(*command, &flags->problem);
  command
      ->add_option("--device", flags->device,
                   "cpu, cuda:N, or a profile: h200, h100, a100, l40s (default: this machine's)")
      ->type_name("NAME");
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([=] { *action = [flags] { return plan(*flags); }; });
}

}  // namespace volley::cli
