// SPDX-License-Identifier: BSD-3-Clause
//
// `volley bench`: how long a call takes that flags describe, by the protocols of docs/tuning.md
// (timing.h). With --json it prints a record as results/ has them. bench/compare.py times other
// libraries beside it.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "call.h"
#include "cli11.h"
#include "print.h"
#include "problem_flags.h"
#include "progress.h"
#include "timing.h"
#include "workload.h"

namespace volley::cli {
namespace {

using nlohmann::ordered_json;

struct BenchFlags {
  ProblemFlags problem;
  std::vector<std::string> protocols;
  std::string device;
  std::string facts;  // a file
  bool json = false;
};

struct Row {
  std::string impl;
  std::string protocol;
  Times times;
};

// A plan with the memory that it runs on.
class Bound {
 public:
  Bound(const BenchFlags& flags, const std::string& device) : cpu_(device == "cpu") {
    geometry_ = make_geometry(flags.problem, cpu_ ? VOLLEY_DEVICE_CPU : VOLLEY_DEVICE_CUDA);
    volley_error error{};
    plan_ = try_plan(geometry_->problem, device, &error);
    if (plan_ == nullptr) throw_error(error);  // before any memory is taken
    tensors_ = make_tensors(*geometry_);
    workspace_ = make_workspace(plan_.get());
    problem_ = problem_of(tensors_, geometry_->problem);
    workspace_data_ = workspace_.data();
    if (!cpu_) {
      on_gpu_ = std::make_unique<DeviceTensors>(tensors_);
      problem_ = on_gpu_->problem(geometry_->problem);
      gpu_workspace_ = upload(workspace_, "the workspace");
      workspace_data_ = gpu_workspace_.data();
    }
    buffers_ = buffers_of(problem_);
    if (problem_.op == VOLLEY_OP_BACKWARD) run_forward();
  }

  void run(void* stream) const {
    volley_error error{};
    const uint64_t size = volley_plan_workspace_size(plan_.get());
    if (volley_run(plan_.get(), &buffers_, workspace_data_, size, stream, &error) != VOLLEY_OK) {
      throw_error(error);
    }
  }

  // Of making the plan once more, best of many batches.
  double replan_ns() const {
    constexpr int kBatches = 100, kCalls = 100;
    double best = INFINITY;
    for (int batch = 0; batch < kBatches; ++batch) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i) {
        volley_plan* plan = nullptr;
        volley_plan_create(&problem_, nullptr, &plan, nullptr);
        volley_plan_destroy(plan);
      }
      const std::chrono::duration<double, std::nano> took =
          std::chrono::steady_clock::now() - begin;
      best = std::min(best, took.count() / kCalls);
    }
    return best;
  }

  bool cpu() const { return cpu_; }
  const Geometry& geometry() const { return *geometry_; }
  ordered_json plan() const {
    return ordered_json::parse(describe(plan_.get(), VOLLEY_FORMAT_JSON));
  }

 private:
  // A backward reads o and lse.
  void run_forward() const {
    volley_problem forward = problem_;
    forward.op = VOLLEY_OP_FORWARD;
    forward.backend = VOLLEY_BACKEND_AUTO;
    forward.dout = forward.dlse = forward.dq = forward.dk = forward.dv = nullptr;
    forward.dbias = forward.dsink = nullptr;
    volley_error error{};
    const PlanHandle plan = try_plan(forward, cpu_ ? "cpu" : "cuda:0", &error);
    if (plan == nullptr) throw_error(error);
    const check::HostTensor workspace = make_workspace(plan.get());
    const check::DeviceCopy copy = cpu_ ? check::DeviceCopy() : upload(workspace, "the workspace");
    const volley_buffers buffers = buffers_of(forward);
    if (volley_run(plan.get(), &buffers, cpu_ ? workspace.data() : copy.data(),
                   volley_plan_workspace_size(plan.get()), nullptr, &error) != VOLLEY_OK) {
      throw_error(error);
    }
  }

  const bool cpu_;
  std::unique_ptr<Geometry> geometry_;
  PlanHandle plan_;
  Tensors tensors_;
  check::HostTensor workspace_;
  std::unique_ptr<DeviceTensors> on_gpu_;
  check::DeviceCopy gpu_workspace_;
  void* workspace_data_ = nullptr;
  volley_problem problem_{};  // with tensors where the plan works
  volley_buffers buffers_{};
};

// The asked device; else a GPU where there is one, unless a backend of the CPU was asked for.
std::string choose_device(const BenchFlags& flags) {
  if (!flags.device.empty()) return flags.device;
  const int32_t backend = flags.problem.options.backend;
  const bool cpu = backend == VOLLEY_BACKEND_REFERENCE || backend == VOLLEY_BACKEND_CPU;
  return cpu || !check::gpu_available(nullptr) ? "cpu" : "cuda:0";
}

std::vector<Row> time_protocol(const Bound& bound, const std::string& protocol) {
  const Call call = [&](void* stream) { bound.run(stream); };
  if (protocol == "wall") return {{"volley", protocol, wall(call)}};
#if VOLLEY_WITH_CUDA
  if (protocol == "sustained") return {{"volley", protocol, sustained(call)}};
  if (protocol == "burst") return {{"volley", protocol, burst(call)}};
  HostTimes times = host(call);
  return {{"volley", protocol, std::move(times.call)}, {"empty", protocol, std::move(times.empty)}};
#else
  failure("this build has no CUDA");
#endif
}

double flops_of(const Bound& bound) {
  const GeometryFlags& f = bound.geometry().flags();
  const double forward =
      2 * static_cast<double>(f.d + f.dv) * counted_pairs(f, bound.geometry().problem);
  return f.backward ? 2.5 * forward : forward;
}

ordered_json row_json(const Bound& bound, const Row& row) {
  const GeometryFlags& f = bound.geometry().flags();
  const volley_problem& problem = bound.geometry().problem;
  const std::string op = problem.deterministic != 0 ? "bwd_det" : "bwd";
  ordered_json json = {{"op", f.backward ? op : "fwd"},
                       {"dtype", f.dtype},
                       {"mode", problem.accuracy == VOLLEY_ACCURACY_FAST ? "fast" : "default"},
                       {"variant", variant_of(f, problem)},
                       {"d", f.d},
                       {"dv", f.dv},
                       {"hq", f.hq},
                       {"hk", f.hk},
                       {"b", f.b},
                       {"sq", f.sq},
                       {"sk", f.sk},
                       {"causal", problem.causal != 0},
                       {"impl", row.impl},
                       {"protocol", row.protocol},
                       {"ms", row.times.quantile(0.5)},
                       {"ms_p10", row.times.quantile(0.1)},
                       {"ms_p90", row.times.quantile(0.9)}};
  if (row.protocol != "host") json["tflops"] = flops_of(bound) / row.times.quantile(0.5) / 1e9;
  json["ghz"] = row.times.ghz ? ordered_json(*row.times.ghz) : ordered_json(nullptr);
  json["run"] = 1;
  return json;
}

std::string row_text(const Bound& bound, const Row& row) {
  const double ms = row.times.quantile(0.5);
  std::string text = fmt::format("{:<10} {:<7} {:.5g} ms ({:.5g} ... {:.5g})", row.protocol,
                                 row.impl, ms, row.times.quantile(0.1), row.times.quantile(0.9));
  if (row.protocol != "host") {
    const double tflops = flops_of(bound) / ms / 1e9;
    text += tflops < 1 ? fmt::format(", {:.4g} GFLOP/s", 1000 * tflops)
                       : fmt::format(", {:.4g} TFLOP/s", tflops);
  }
  if (row.times.ghz) text += fmt::format(" at {:.2f} GHz", *row.times.ghz);
  return text + "\n";
}

ordered_json read_facts(const std::string& path) {
  std::ifstream file(path);
  ordered_json facts = ordered_json::parse(file, nullptr, false);
  if (!facts.is_object()) failure("--facts {} is not a file with a JSON object", printable(path));
  return facts;
}

// What results/ has beside the rows. Asks the doctor, who makes plans of its own.
ordered_json record_of(const Bound& bound, const BenchFlags& flags) {
  std::string doctor(volley_doctor(VOLLEY_FORMAT_JSON, nullptr, 0), '\0');
  volley_doctor(VOLLEY_FORMAT_JSON, doctor.data(), doctor.size() + 1);
  const ordered_json found = ordered_json::parse(doctor);
  const ordered_json plan = bound.plan();
  ordered_json record = {{"schema", 1}};
  record["machine"] = {
      {"device", plan["device"]["product"]},
      {"sms", plan["device"]["sms"]},
      {"cuda", found["build"]["cuda"]},
      {"cpu", found["cpu"]["model"]},
      {"threads", bound.cpu() ? plan["config"]["threads"] : found["cpu"]["threads"]}};
  record["source"] = {{"version", volley_version()}};
  if (!flags.facts.empty()) record.update(read_facts(flags.facts), true);
  char taken[32] = {};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(taken, sizeof taken, "%Y-%m-%dT%H:%M:%SZ", &utc);
  record["taken"] = taken;
  record["peers"] = ordered_json::object();
  record["plan"] = {{"backend", plan["backend"]}, {"config", plan["config"]["name"]}};
  record["rows"] = ordered_json::array();
  return record;
}

std::vector<std::string> protocols_of(const BenchFlags& flags, const std::string& device) {
  const bool cpu = device == "cpu";
  if (flags.protocols.empty()) {
    return cpu ? std::vector<std::string>{"wall"} : std::vector<std::string>{"sustained", "burst"};
  }
  for (const std::string& protocol : flags.protocols) {
    if ((protocol == "wall") == cpu) continue;
    bad_input("--protocol {} is for {}, but the device is {}", protocol, cpu ? "GPUs" : "the CPU",
              device);
  }
  return flags.protocols;
}

void print_plan(const Bound& bound) {
  const ordered_json plan = bound.plan();
  print(fmt::format("{} [{}] on {}\n", plan["backend"].get<std::string>(),
                    plan["config"]["name"].get<std::string>(),
                    plan["device"]["product"].get<std::string>()));
}

ExitCode bench(const BenchFlags& flags) {
  const std::string device = choose_device(flags);
  const std::vector<std::string> protocols = protocols_of(flags, device);
  const Bound bound(flags, device);
  ordered_json record;
  if (flags.json) {
    record = record_of(bound, flags);
  } else {
    print_plan(bound);
  }
  for (const std::string& protocol : protocols) {
    const Progress progress("timing, " + protocol);
    for (const Row& row : time_protocol(bound, protocol)) {
      if (flags.json) {
        record["rows"].push_back(row_json(bound, row));
      } else {
        print(row_text(bound, row));
      }
    }
    if (protocol != "host") continue;
    const double again = bound.replan_ns();
    if (flags.json) {
      record["plan"]["again_ns"] = again;
    } else {
      print(fmt::format("{:<10} made again in {:.0f} ns\n", "plan", again));
    }
  }
  if (flags.json) print(record.dump(1) + "\n");
  return kExitOk;
}

constexpr const char* kFooter =
    "Examples:\n"
    "  volley bench --sq 4096 --causal\n"
    "  volley bench --b 4 --sq 2048 --hq 32 --hk 8 --protocol sustained --json\n"
    "  volley bench --sq 512 --protocol host\n"
    "  volley bench --dtype fp32 --sq 1024 --device cpu --threads 1\n"
    "\n"
    "Exit status: 0 timed; 1 the device is not here or failed; 2 bad usage, or no backend offers\n"
    "this (the sentence says why).";

}  // namespace

void add_bench(CLI::App& app, Action* action) {
  CLI::App* command = app.add_subcommand("bench", "Time a call that flags describe");
  command->footer(kFooter);
  auto flags = std::make_shared<BenchFlags>();
  add_problem_flags(*command, &flags->problem);
  command
      ->add_option("--protocol", flags->protocols,
                   "sustained, burst, host (GPUs; default the first two) or wall (the CPU)")
      ->check(unsaid(CLI::IsMember({"sustained", "burst", "host", "wall"})))
      ->delimiter(',')
      ->type_name("NAME");
  command->add_option("--device", flags->device, "cpu or cuda:0 (default: a GPU if there is one)")
      ->check(unsaid(CLI::IsMember({"cpu", "cuda:0"})))
      ->type_name("NAME");
  command->add_option("--facts", flags->facts, "JSON with machine and source for the record")
      ->type_name("FILE");
  command->add_flag("--json", flags->json, "Print a record as results/ has them");
  command->callback([=] { *action = [flags] { return bench(*flags); }; });
}

}  // namespace volley::cli
