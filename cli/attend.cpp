// SPDX-License-Identifier: BSD-3-Clause
//
// `volley attend FILE`: reads a call from a safetensors file (request.h), plans it, runs it
// (measure.h), compares it with the answer if the file has one, and writes the result.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "call.h"
#include "cli11.h"
#include "compare.h"
#include "flags.h"
#include "measure.h"
#include "output_file.h"
#include "print.h"
#include "progress.h"
#include "request.h"
#include "runner.h"

namespace volley::cli {
namespace {

using core::Role;
using nlohmann::ordered_json;

struct AttendFlags {
  std::string file;
  std::string output;
  std::string device;
  int32_t backend = VOLLEY_BACKEND_AUTO;
  int32_t threads = 0;
  ScoreFlags score;
  bool json = false;
};

bool on_gpu(const std::string& device) { return device.rfind("cuda", 0) == 0; }

// Plans on the device that was asked for. Else on the GPU if one is here, and on the CPU if there
// is none or none of its backends takes the problem; the latter is said aloud.
PlanHandle make_plan(const AttendFlags& flags, Request* request) {
  const bool gpu_backend =
      flags.backend == VOLLEY_BACKEND_SM80 || flags.backend == VOLLEY_BACKEND_SM90;
  const bool choose = flags.device.empty() && flags.backend == VOLLEY_BACKEND_AUTO;
  std::string device = flags.device;
  if (device.empty()) device = choose || gpu_backend ? "cuda:0" : "cpu";
  volley_error error{};
  request->place_on(on_gpu(device) ? VOLLEY_DEVICE_CUDA : VOLLEY_DEVICE_CPU);
  PlanHandle plan = try_plan(request->problem(), device, &error);
  if (plan != nullptr) return plan;
  const bool refused = error.code == VOLLEY_NOT_OFFERED || error.code == VOLLEY_NOT_BUILT;
  if (!choose || !(refused || error.code == VOLLEY_NO_DEVICE)) throw_error(error);
  if (refused) {
    request->warnings.push_back(
        fmt::format("on the CPU, since no GPU backend runs this: {}", error.message));
  }
  request->place_on(VOLLEY_DEVICE_CPU);
  plan = try_plan(request->problem(), "cpu", &error);
  if (plan == nullptr) throw_error(error);
  return plan;
}

// How far o and lse are from the answers in the file.
struct Deviation {
  bool o_known = false;
  bool lse_known = false;
  check::Comparison o;
  check::Comparison lse;

  bool ok() const { return (!o_known || o.ok) && (!lse_known || lse.ok); }
};

// The bounds come from this machine's own reference and naive program: measured against the file's
// answer, a wrong answer would widen them.
Deviation compare(const Request& request) {
  Deviation deviation;
  deviation.o_known = request.o_answer.present();
  deviation.lse_known = request.lse_answer.present();
  if (!deviation.o_known && !deviation.lse_known) return deviation;
  const Progress progress("computing the yardstick of the deviation");
  const check::Instance& instance = request.instance;
  const check::Oracle oracle = check::oracle_of(instance);
  if (!oracle.answer.ok()) failure("the reference failed: {}", oracle.answer.message);
  if (deviation.o_known) {
    const check::Comparison bounds =
        check::compare("o", instance[Role::kO], oracle.o, oracle.naive.o, check::kForwardRule,
                       oracle.naive.max_logit, oracle.naive.rounding);
    deviation.o = check::compare_within("o", instance[Role::kO], request.o_answer, bounds);
  }
  if (deviation.lse_known) {
    deviation.lse =
        check::compare_lse(instance[Role::kLse], request.lse_answer, oracle.naive.max_logit);
  }
  return deviation;
}

std::string rate_text(const Measurement& measured) {
  if (measured.seconds <= 0 || measured.flops <= 0) return "";
  const double rate = measured.flops / measured.seconds;
  return rate >= 1e12 ? fmt::format(", {:.1f} TFLOP/s", rate / 1e12)
                      : fmt::format(", {:.3g} GFLOP/s", rate / 1e9);
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string deviation_line(const char* name, const check::Comparison& found) {
  if (found.ok && found.rmse_bound > 0) {
    return fmt::format("{:<12} max error {:.3g} (allowed {:.3g}), RMS {:.3g} (allowed {:.3g})\n",
                       name, found.max_error, found.max_bound, found.rmse, found.rmse_bound);
  }
  if (found.ok) {
    return fmt::format("{:<12} max error {:.3g} (allowed {:.3g}), RMS {:.3g}\n", name,
                       found.max_error, found.max_bound, found.rmse);
  }
  return fmt::format("{:<12} DEVIATES: {}\n", name, found.sentence);
}

std::string report_text(const AttendFlags& flags, const volley_plan* plan,
                        const Measurement& measured, const Deviation& deviation) {
  std::string text = describe(plan, VOLLEY_FORMAT_TEXT);
  text +=
      fmt::format("time         {} ({}){}\n", time_text(measured.seconds),
                  measured.runs == 1 ? "one run" : fmt::format("median of {} runs", measured.runs),
                  rate_text(measured));
  if (deviation.o_known) text += deviation_line("o", deviation.o);
  if (deviation.lse_known) text += deviation_line("lse", deviation.lse);
  if (!deviation.o_known) text += "o            not compared: the file has no o_model\n";
  if (!flags.output.empty()) text += fmt::format("written      {}\n", printable(flags.output));
  return text;
}

ordered_json comparison_json(const check::Comparison& found) {
  ordered_json json = {{"ok", found.ok},
                       {"max_error", found.max_error},
                       {"max_allowed", found.max_bound},
                       {"rms_error", found.rmse}};
  if (found.rmse_bound > 0) json["rms_allowed"] = found.rmse_bound;
  json["sentence"] = found.sentence;
  return json;
}

std::string report_json(const AttendFlags& flags, const volley_plan* plan,
                        const Measurement& measured, const Deviation& deviation,
                        const Request& request) {
  ordered_json json;
  json["file"] = flags.file;
  json["plan"] = ordered_json::parse(describe(plan, VOLLEY_FORMAT_JSON));
  json["runs"] = measured.runs;
  json["seconds"] = measured.seconds;
  json["flops"] = measured.flops;
  json["deviation"] = nullptr;
  if (deviation.o_known) json["deviation"]["o"] = comparison_json(deviation.o);
  if (deviation.lse_known) json["deviation"]["lse"] = comparison_json(deviation.lse);
  json["output"] = flags.output.empty() ? ordered_json(nullptr) : ordered_json(flags.output);
  json["warnings"] = request.warnings;
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

void write_result(const AttendFlags& flags, const volley_plan* plan, const Request& request) {
  const volley_problem& options = request.instance.options;
  Metadata metadata;
  metadata["volley"] = volley_version();
  metadata["backend"] = volley_backend_name(volley_plan_backend(plan));
  metadata["causal"] = options.causal != 0 ? "true" : "false";
  const auto plan_json = ordered_json::parse(describe(plan, VOLLEY_FORMAT_JSON));
  metadata["scale"] = plan_json.at("problem").at("scale").dump();
  std::vector<TensorToWrite> tensors;
  for (const Role role : {Role::kO, Role::kLse}) {
    const check::HostTensor& tensor = request.instance[role];
    const volley_tensor* view = tensor.view();
    const size_t bytes = static_cast<size_t>(tensor.size()) * (view->dtype >> 8 & 0xff) / 8;
    tensors.push_back({core::info(role).name,
                       view->dtype,
                       tensor.shape(),
                       {static_cast<const std::byte*>(tensor.data()), bytes}});
  }
  write_safetensors(flags.output, std::move(tensors), metadata);
}

ExitCode attend(const AttendFlags& flags) {
  const SafetensorsFile file(flags.file);
  Request request = read_request(file, flags.score);
  request.instance.options.backend = flags.backend;
  request.instance.options.num_threads = flags.threads;
  const PlanHandle plan = make_plan(flags, &request);
  if (!flags.output.empty()) OutputFile::check(flags.output);
  load(file, &request);
  for (const std::string& warning : request.warnings) warn("attend", warning);

  const Measurement measured = run_and_time(plan.get(), &request);
  const Deviation deviation = compare(request);
  if (!flags.output.empty()) write_result(flags, plan.get(), request);
  print(flags.json ? report_json(flags, plan.get(), measured, deviation, request)
                   : report_text(flags, plan.get(), measured, deviation));
  if (deviation.ok()) return kExitOk;
  throw Error(kExitDeviation,
              "the result deviates from the file's answer by more than the rule of "
              "docs/contract.md allows");
}

constexpr const char* kFooter =
    "The file holds q, k, v: (b, s, h, d), or (total, h, d) with cu_seqlens. It may hold\n"
    "cu_seqlens (for both) or cu_seqlens_q and cu_seqlens_k, seqused_q, seqused_k, page_table,\n"
    "sink, bias, alibi_slopes, mask, q_descale, k_descale, v_descale. Its metadata may hold\n"
    "causal (true, false) and scale; flags beat them. If it holds o_model (and lse), the result "
    "is\n"
    "compared with them.\n"
    "\n"
    "Examples:\n"
    "  volley attend tests/data/smollm2_135m_layer15.safetensors\n"
    "  volley attend layer.safetensors --backend reference -o out.safetensors\n"
    "  volley attend layer.safetensors --window 1024,0 --json\n"
    "\n"
    "Exit status: 0 done; 1 the machine failed; 2 bad usage, file or problem; 3 the result "
    "deviates\n"
    "from the file's answer by more than the tolerance rule allows.";

}  // namespace

void add_attend(CLI::App& app, Action* action) {
  CLI::App* command = app.add_subcommand("attend", "Compute the attention of a safetensors file");
  command->footer(kFooter);
  auto flags = std::make_shared<AttendFlags>();
  command->add_option("FILE", flags->file, "A safetensors file with q, k, v")
      ->required()
      ->type_name(" ");
  command->add_option("-o,--output", flags->output, "Write o and lse to this safetensors file")
      ->type_name("FILE");
  add_backend_flag(*command, &flags->backend);
  command->add_option("--device", flags->device, "cpu or cuda:0 (default: the fastest here)")
      ->check(unsaid(CLI::IsMember({"cpu", "cuda:0"})))
      ->type_name("NAME");
  command->add_option("--threads", flags->threads, "Of the CPU backends (default: all cores)")
      ->check(not_negative())
      ->type_name("N");
  add_score_flags(*command, &flags->score);
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([=] { *action = [flags] { return attend(*flags); }; });
}

}  // namespace volley::cli
