// SPDX-License-Identifier: BSD-3-Clause
//
// `volley check`: the self-test. Runs the suites of check/suites.h on every backend that this
// machine can run, each result compared with the reference.
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli11.h"
#include "flags.h"
#include "print.h"
#include "progress.h"
#include "runner.h"
#include "suites.h"

namespace volley::cli {
namespace {

using nlohmann::ordered_json;

struct CheckFlags {
  int32_t backend = VOLLEY_BACKEND_AUTO;  // AUTO: all that are available
  bool full = false;
  bool quick = false;  // the default, spelt out
  uint64_t seed = 1;
  bool json = false;
};

constexpr int64_t kQuickCount = 100;  // random problems a backend: a minute for all suites
constexpr int64_t kFullCount = 1000;
constexpr size_t kShownFailures = 5;

struct Line {
  int32_t backend = 0;
  const char* suite = "";
  double seconds = 0;
  check::Report report;
};

struct Skipped {
  int32_t backend = 0;
  std::string why;
};

// The CPU's backends run everywhere: one that does not is a failure. A GPU's may be skipped.
std::vector<int32_t> backends_to_check(int32_t asked, std::vector<Skipped>* skipped) {
  std::vector<int32_t> available;
  for (const int32_t id :
       {VOLLEY_BACKEND_REFERENCE, VOLLEY_BACKEND_CPU, VOLLEY_BACKEND_SM80, VOLLEY_BACKEND_SM90}) {
    if (asked != VOLLEY_BACKEND_AUTO && asked != id) continue;
    std::string why;
    if (check::backend_available(id, &why)) {
      available.push_back(id);
    } else if (asked == id || id == VOLLEY_BACKEND_REFERENCE || id == VOLLEY_BACKEND_CPU) {
      failure("{} cannot be checked here: {}", volley_backend_name(id), why);
    } else {
      skipped->push_back({id, why});
    }
  }
  return available;
}

Line run_suite(const check::Suite& suite, int32_t backend, const CheckFlags& flags) {
  const std::string name = fmt::format("{}: {}", volley_backend_name(backend), suite.name);
  Progress progress(name);
  const auto begin = std::chrono::steady_clock::now();
  Line line{backend, suite.name, 0, {}};
  line.report = suite.run(
      {.backend = backend, .count = flags.full ? kFullCount : kQuickCount, .seed = flags.seed},
      [&](int64_t done, int64_t total, const std::string& step) {
        progress.say(fmt::format("{}, {} of {}: {}", name, done, total, step));
      });
  line.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return line;
}

std::string line_text(const Line& line) {
  const check::Report& report = line.report;
  std::string text = fmt::format("{:<10} {:<15} {} passed", volley_backend_name(line.backend),
                                 line.suite, report.passed);
  if (report.refused > 0) text += fmt::format(", {} refused as it should be", report.refused);
  if (!report.ok()) text += fmt::format(", {} FAILED", report.failures.size());
  text += fmt::format(" ({:.1f} s)\n", line.seconds);
  const size_t shown = std::min(report.failures.size(), kShownFailures);
  for (size_t i = 0; i < shown; ++i) text += fmt::format("    {}\n", report.failures[i]);
  if (shown < report.failures.size()) {
    text += fmt::format("    and {} more\n", report.failures.size() - shown);
  }
  return text;
}

ordered_json line_json(const Line& line) {
  return {{"backend", volley_backend_name(line.backend)},
          {"suite", line.suite},
          {"passed", line.report.passed},
          {"refused", line.report.refused},
          {"failed", line.report.failures.size()},
          {"failures", line.report.failures},
          {"seconds", line.seconds}};
}

ExitCode check_backends(const CheckFlags& flags) {
  std::vector<Skipped> skipped;
  const std::vector<int32_t> backends = backends_to_check(flags.backend, &skipped);
  ordered_json json = {{"version", volley_version()},
                       {"seed", flags.seed},
                       {"full", flags.full},
                       {"suites", ordered_json::array()},
                       {"skipped", ordered_json::array()}};
  size_t failures = 0;
  for (const int32_t backend : backends) {
    for (const check::Suite& suite : check::suites()) {
      const Line line = run_suite(suite, backend, flags);
      failures += line.report.failures.size();
      json["suites"].push_back(line_json(line));
      if (flags.json) continue;
      print(line_text(line));
      flush_stdout();  // each line when it is known
    }
  }
  for (const auto& [backend, why] : skipped) {
    json["skipped"].push_back({{"backend", volley_backend_name(backend)}, {"why", why}});
    if (!flags.json) print(fmt::format("{:<10} skipped: {}\n", volley_backend_name(backend), why));
  }
  json["ok"] = failures == 0;
  if (flags.json) {
    print(json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  }
  if (failures == 0) return kExitOk;
  failure("{} check{} failed (seed {})", failures, failures == 1 ? "" : "s", flags.seed);
}

constexpr const char* kFooter =
    "Examples:\n"
    "  volley check\n"
    "  volley check --backend cpu --full\n"
    "  volley check --seed 7 --json\n"
    "\n"
    "Exit status: 0 all passed; 1 something failed, or the backend cannot run here; 2 bad usage.";

}  // namespace

void add_check(CLI::App& app, Action* action) {
  CLI::App* command =
      app.add_subcommand("check", "Test every available backend against the reference");
  command->footer(kFooter);
  auto flags = std::make_shared<CheckFlags>();
  add_backend_flag(*command, &flags->backend);
  CLI::Option* full =
      command->add_flag("--full", flags->full, "1000 random problems a backend, not 100");
  command->add_flag("--quick", flags->quick, "100 random problems a backend (the default)")
      ->excludes(full);
  command->add_option("--seed", flags->seed, "Of the first random problem (default 1)")
      ->type_name("N");
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([=] { *action = [flags] { return check_backends(*flags); }; });
}

}  // namespace volley::cli
