// SPDX-License-Identifier: BSD-3-Clause
//
// volley_doctor: what this machine has, what would run, what is missing and how to get it. Whether
// a backend is available is not looked up but tried: a small problem is planned on it.
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "abi.h"
#include "backend.h"
#include "cpu/kernel/choose.h"
#include "cpu/thread_pool.h"
#include "device.h"
#include "host.h"

// CMake sets these when the Hopper kernels are built.
#ifndef VOLLEY_BUILD_CUDA
#  define VOLLEY_BUILD_CUDA ""
#  define VOLLEY_BUILD_ARCHITECTURES ""
#endif

extern "C" char** environ;

namespace volley::core {
namespace {

using nlohmann::ordered_json;

struct Variable {
  std::string name;
  std::string value;
  std::string problem;  // empty: valid
};

struct BackendState {
  int32_t backend = 0;
  std::string state;     // "available", "not_built", "no_device", "refused"
  std::string sentence;  // what it is here, or what to do
};

struct Report {
  Host host;
  int32_t threads = 0;
  std::vector<Device> devices;
  std::string driver_problem;
  std::vector<Variable> variables;
  std::vector<BackendState> backends;  // fastest first
};

constexpr std::string_view kBuildCuda = VOLLEY_BUILD_CUDA;

std::string compiler_name() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

// The CUDA version that the driver must support, 13000 for a build with 13.0 or 13.1: within a
// major version an older driver will do.
int32_t wanted_driver() { return std::atoi(kBuildCuda.data()) * 1000; }

std::string version_text(int32_t cuda) {
  return fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
}

// What is wrong with a variable's value; empty: nothing.
std::string judge(std::string_view name, const std::string& value) {
  if (name == "VOLLEY_THREADS") {
    int32_t threads = 0;
    return resolve_threads(0, &threads).message;
  }
  if (name == "VOLLEY_BACKEND") {
    for (int32_t id = VOLLEY_BACKEND_AUTO; id <= VOLLEY_BACKEND_SM90; ++id) {
      if (value.empty() || value == volley_backend_name(id)) return "";
    }
    return "wanted auto, reference, cpu, sm80 or sm90";
  }
  if (name == "VOLLEY_CHECK") return value.empty() || value == "1" ? "" : "wanted 1";
  if (name == "VOLLEY_FWD_ROW") return "";  // for tests: any text that is no row is ignored
  if (name == "VOLLEY_LOG") return value.empty() || value == "plan" ? "" : "wanted plan";
  if (name == "VOLLEY_CPU") {
    int32_t kernel = 0;
    return choose_kernel(&kernel).message;
  }
  return "Volley reads no such variable";
}

std::vector<Variable> read_variables() {
  std::vector<Variable> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (!text.starts_with("VOLLEY_") || equals == text.npos) continue;
    Variable variable{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)),
                      ""};
    variable.problem = judge(variable.name, variable.value);
    variables.push_back(std::move(variable));
  }
  return variables;
}

// Plans one bf16 problem that every backend offers.
Status try_backend(const Backend& backend, const std::string& device, Plan* plan) {
  volley_tensor q{};
  q.dtype = VOLLEY_BF16;
  q.ndim = 4;
  q.device_type = backend.device_type;
  constexpr int64_t kShape[] = {1, 128, 8, 128};
  int64_t stride = 1;
  for (size_t axis = 4; axis-- > 0; stride *= kShape[axis]) {
    q.shape[axis] = kShape[axis];
    q.stride[axis] = stride;
  }
  volley_problem in;
  volley_problem_init(&in);
  in.backend = backend.id;
  in.q = in.k = in.v = in.o = &q;
  Problem problem;
  VOLLEY_TRY(make_problem(in, &problem));
  return make_plan(problem, device, plan);
}

BackendState examine(int32_t id, const Report& report) {
  const Backend& backend = backend_of(id);
  if (!backend.built) {
    return {id, "not_built",
            "not in this build: install a CUDA toolkit (12.4 or newer; scripts/setup.sh --cuda "
            "does) and build again"};
  }
  if (backend.device_type == VOLLEY_DEVICE_CUDA && report.devices.size() < 2) {
    return {
        id, "no_device",
        report.driver_problem.empty()
            ? fmt::format("no NVIDIA GPU here: needs one of compute capability {} and its driver",
                          id == VOLLEY_BACKEND_SM80 ? "8.0 or newer" : "9.0 (H100, H200)")
            : report.driver_problem};
  }
  BackendState found{id, "no_device", ""};
  for (const Device& device : report.devices) {
    if (device.type != backend.device_type) continue;
    Plan plan;
    const Status status = try_backend(backend, device.name, &plan);
    if (status.ok()) {
      return {id, "available", fmt::format("on {}: {}", device.name, plan.config.name)};
    }
    if (status.code != VOLLEY_NO_DEVICE && status.code != VOLLEY_NOT_OFFERED) {
      found.state = "refused";
    }
    found.sentence = status.message;
  }
  return found;
}

Report examine_machine() {
  Report report;
  report.host = read_host();
  report.devices = list_devices(&report.driver_problem);
  report.variables = read_variables();
  if (!resolve_threads(0, &report.threads).ok()) report.threads = 0;
  for (const int32_t id :
       {VOLLEY_BACKEND_SM90, VOLLEY_BACKEND_SM80, VOLLEY_BACKEND_CPU, VOLLEY_BACKEND_REFERENCE}) {
    report.backends.push_back(examine(id, report));
  }
  return report;
}

std::string driver_sentence(const Device& gpu) {
  if (kBuildCuda.empty()) return "";
  if (gpu.driver >= wanted_driver()) return "new enough for this build";
  return fmt::format("too old for this build, which wants {}: update the NVIDIA driver",
                     version_text(wanted_driver()));
}

std::string build_text() {
  return fmt::format("{}, {}", compiler_name(),
                     kBuildCuda.empty()
                         ? std::string("without CUDA")
                         : fmt::format("CUDA {} for {}", kBuildCuda, VOLLEY_BUILD_ARCHITECTURES));
}

double gib(uint64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0); }

std::string report_text(const Report& report) {
  const Host& host = report.host;
  std::string text = fmt::format(
      "volley       {}, ABI {}\nbuild        {}\ncpu          {} ({})\n"
      "             {} cores, {}, {:.1f} GiB of memory, {:.1f} free\n"
      "             {}\n",
      volley_version(), volley_abi_version(), build_text(), host.cpu_model, host.architecture,
      host.cores,
      report.threads > 0 ? fmt::format("{} threads would run", report.threads)
                         : std::string("VOLLEY_THREADS is not valid"),
      gib(host.memory_bytes), gib(host.free_bytes), fmt::join(host.features, " "));
  for (const Device& device : report.devices) {
    if (device.type != VOLLEY_DEVICE_CUDA) continue;
    const std::string sentence = driver_sentence(device);
    text += fmt::format("gpu          {}: {}, sm_{}, {} SMs; driver CUDA {}{}{}\n", device.name,
                        device.product, device.arch, device.sms, version_text(device.driver),
                        sentence.empty() ? "" : ", ", sentence);
  }
  if (report.devices.size() < 2) {
    text += fmt::format("gpu          none{}{}\n", report.driver_problem.empty() ? "" : ": ",
                        report.driver_problem);
  }
  for (const Variable& variable : report.variables) {
    text += fmt::format("environment  {}={}{}{}\n", variable.name, variable.value,
                        variable.problem.empty() ? "" : "  NOT VALID: ", variable.problem);
  }
  for (const BackendState& entry : report.backends) {
    text += fmt::format("backend      {:<10} {}{}\n", volley_backend_name(entry.backend),
                        entry.state == "available" ? "available " : "", entry.sentence);
  }
  return text;
}

std::string report_json(const Report& report) {
  ordered_json json;
  json["version"] = volley_version();
  json["abi"] = volley_abi_version();
  json["build"] = {{"compiler", compiler_name()},
                   {"cuda", kBuildCuda.empty() ? ordered_json(nullptr) : ordered_json(kBuildCuda)},
                   {"architectures", VOLLEY_BUILD_ARCHITECTURES}};
  json["cpu"] = {{"model", report.host.cpu_model},      {"architecture", report.host.architecture},
                 {"features", report.host.features},    {"cores", report.host.cores},
                 {"threads", report.threads},           {"memory_bytes", report.host.memory_bytes},
                 {"free_bytes", report.host.free_bytes}};
  json["gpus"] = ordered_json::array();
  for (const Device& device : report.devices) {
    if (device.type != VOLLEY_DEVICE_CUDA) continue;
    json["gpus"].push_back({{"name", device.name},
                            {"product", device.product},
                            {"arch", device.arch},
                            {"sms", device.sms},
                            {"driver", version_text(device.driver)},
                            {"driver_new_enough", device.driver >= wanted_driver()}});
  }
  json["driver_problem"] = report.driver_problem;
  json["environment"] = ordered_json::array();
  for (const Variable& variable : report.variables) {
    json["environment"].push_back({{"name", variable.name},
                                   {"value", variable.value},
                                   {"valid", variable.problem.empty()},
                                   {"sentence", variable.problem}});
  }
  json["backends"] = ordered_json::array();
  for (const BackendState& entry : report.backends) {
    json["backends"].push_back({{"name", volley_backend_name(entry.backend)},
                                {"state", entry.state},
                                {"sentence", entry.sentence}});
  }
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace
}  // namespace volley::core

uint64_t volley_doctor(int32_t format, char* buffer, uint64_t capacity) {
  using namespace volley::core;
  try {
    const Report report = examine_machine();
    return copy_text(format == VOLLEY_FORMAT_JSON ? report_json(report) : report_text(report),
                     buffer, capacity);
  } catch (...) {  // out of memory: no report
    return copy_text("", buffer, capacity);
  }
}
