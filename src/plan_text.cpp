// SPDX-License-Identifier: BSD-3-Clause
//
// A plan in words and as JSON.
#include <nlohmann/json.hpp>

#include "plan.h"

namespace volley::core {
namespace {

std::string band_text(const Band& band) {
  if (band.open()) return "full";
  std::string where = "bottom-right";
  if (band.alignment == VOLLEY_ALIGN_TOP_LEFT) where = "top-left";
  if (band.alignment == VOLLEY_ALIGN_EXPLICIT) {
    where = fmt::format("offset {}", band.explicit_offset);
  }
  if (band.left < 0 && band.right == 0) return fmt::format("causal ({})", where);
  return fmt::format("window ({}, {}) ({})", band.left, band.right, where);
}

std::string extras_text(const Problem& problem) {
  std::string text;
  const auto add = [&](bool present, const std::string& name) {
    if (present) text += ", " + name;
  };
  add(problem.softcap > 0, fmt::format("softcap {:g}", problem.softcap));
  add(problem.has(Role::kSink), "sink");
  add(problem.packed_q || problem.packed_k, "varlen");
  add(problem.has(Role::kSequsedQ) || problem.has(Role::kSequsedK), "used lengths");
  add(problem.page > 0, fmt::format("pages of {}", problem.page));
  add(problem.has(Role::kBias), "bias");
  add(problem.has(Role::kAlibiSlopes), "ALiBi");
  add(problem.has(Role::kMask), "mask");
  add(problem.dropout_p > 0, fmt::format("dropout {:g}", problem.dropout_p));
  return text;
}

std::string problem_text(const Problem& problem) {
  return fmt::format("{} {}, b {}, sq {}, sk {}, hq {}, hk {}, d {}, dv {}, {}{}",
                     problem.op == VOLLEY_OP_BACKWARD ? "backward" : "forward",
                     volley_dtype_name(problem[Role::kQ].dtype), problem.b, problem.max_sq,
                     problem.max_sk, problem.hq, problem.hk, problem.d, problem.dv,
                     band_text(problem.band), extras_text(problem));
}

std::string device_text(const Device& device) {
  return fmt::format("{} ({}{})", device.name, device.product,
                     device.present ? "" : ", a profile: not this machine");
}

}  // namespace

std::string plan_line(const Plan& plan) {
  std::string line = fmt::format("plan {} [{}] on {}: {}", volley_backend_name(plan.backend),
                                 plan.config.name, plan.device.name, problem_text(plan.problem));
  for (const PassedOver& entry : plan.passed_over) {
    line += fmt::format("; not {}: {}", volley_backend_name(entry.backend), entry.sentence);
  }
  return line;
}

std::string plan_text(const Plan& plan) {
  const Config& config = plan.config;
  std::string text = fmt::format(
      "problem      {}\ndevice       {}\nbackend      {}: {}\nlaunch       {} {} of {} threads",
      problem_text(plan.problem), device_text(plan.device), volley_backend_name(plan.backend),
      config.name, config.grid, plan.device.type == VOLLEY_DEVICE_CPU ? "tasks, a pool" : "blocks",
      config.threads);
  if (config.smem > 0) text += fmt::format(", {} bytes of shared memory each", config.smem);
  text += fmt::format("\nworkspace    {} bytes\n", plan.workspace);
  for (const PassedOver& entry : plan.passed_over) {
    text += fmt::format("passed over  {}: {} [{}]\n", volley_backend_name(entry.backend),
                        entry.sentence, volley_reason_name(entry.reason));
  }
  return text;
}

std::string plan_json(const Plan& plan) {
  const Problem& problem = plan.problem;
  nlohmann::ordered_json json;
  json["backend"] = volley_backend_name(plan.backend);
  json["device"] = {{"name", plan.device.name},
                    {"product", plan.device.product},
                    {"present", plan.device.present},
                    {"arch", plan.device.arch},
                    {"sms", plan.device.sms}};
  json["problem"] = {{"op", problem.op == VOLLEY_OP_BACKWARD ? "backward" : "forward"},
                     {"dtype", volley_dtype_name(problem[Role::kQ].dtype)},
                     {"b", problem.b},
                     {"sq", problem.max_sq},
                     {"sk", problem.max_sk},
                     {"hq", problem.hq},
                     {"hk", problem.hk},
                     {"d", problem.d},
                     {"dv", problem.dv},
                     {"scale", problem.scale},
                     {"mask", band_text(problem.band)},
                     {"text", problem_text(problem)}};
  json["config"] = {{"name", plan.config.name},       {"row", plan.config.row},
                    {"block_m", plan.config.block_m}, {"block_n", plan.config.block_n},
                    {"stages", plan.config.stages},   {"smem_bytes", plan.config.smem},
                    {"grid", plan.config.grid},       {"threads", plan.config.threads}};
  json["splits"] = plan.splits;
  json["workspace_bytes"] = plan.workspace;
  json["passed_over"] = nlohmann::ordered_json::array();
  for (const PassedOver& entry : plan.passed_over) {
    json["passed_over"].push_back({{"backend", volley_backend_name(entry.backend)},
                                   {"status", volley_status_name(entry.code)},
                                   {"reason", volley_reason_name(entry.reason)},
                                   {"sentence", entry.sentence}});
  }
  return json.dump(2) + "\n";
}

}  // namespace volley::core
