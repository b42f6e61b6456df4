// SPDX-License-Identifier: BSD-3-Clause
//
// The command `volley`. Each subcommand is a file of its own (attend.cpp, plan.cpp, doctor.cpp,
// check.cpp, bench.cpp) that adds its flags and hands back an action; here it is called, and
// whatever goes wrong becomes one sentence on stderr and an exit code (error.h).
#include <algorithm>
#include <csignal>
#include <new>

#include "cli11.h"
#include "flags.h"
#include "print.h"

namespace volley::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  volley attend tests/data/smollm2_135m_layer15.safetensors\n"
    "  volley plan --dtype bf16 --sq 4096 --hq 32 --hk 8 --d 128 --causal --device h200\n"
    "  volley doctor\n"
    "  volley check --quick\n"
    "  volley bench --sq 4096 --causal\n"
    "\n"
    "`volley COMMAND --help` explains a command and its exit status.";

const std::string kSeeHelp = "; see --help";

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

// "attend: " when that command was asked for.
std::string command_prefix(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? "" : chosen.front()->get_name() + ": ";
}

int report(const CLI::App& app, const std::string& sentence, ExitCode code) {
  std::fputs(fmt::format("volley: {}{}\n", command_prefix(app), one_line(sentence)).c_str(),
             stderr);
  return code;
}

int run(CLI::App& app, const Action& action) {
  try {
    ExitCode code = kExitOk;
    std::string sentence;
    try {
      code = action();
    } catch (const Error& error) {
      code = error.exit_code();
      sentence = error.what();
    }
    finish_stdout();
    return sentence.empty() ? code : report(app, sentence, code);
  } catch (const Error& error) {
    return report(app, error.what(), error.exit_code());
  } catch (const std::bad_alloc&) {
    return report(app, "out of memory", kExitFailure);
  } catch (const std::exception& error) {
    return report(app, error.what(), kExitFailure);
  }
}

int parse_and_run(int argc, char** argv) {
  CLI::App app{"Exact attention for NVIDIA Hopper and for CPUs", "volley"};
  app.set_version_flag("--version", fmt::format("volley {}", volley_version()));
  app.require_subcommand(1);
  app.footer(kFooter);
  app.get_formatter()->column_width(34);
  Action action;
  add_attend(app, &action);
  add_plan(app, &action);
  add_doctor(app, &action);
  add_check(app, &action);
  add_bench(app, &action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    action = [text = std::string(version.what())] { return print(text + "\n"), kExitOk; };
  } catch (const CLI::CallForHelp&) {
    action = [&app] { return print(app.help()), kExitOk; };
  } catch (const CLI::RequiredError& error) {
    const std::vector<std::string> unknown = app.remaining();
    const std::string sentence =
        unknown.empty() ? error.what() : "unknown argument '" + unknown.front() + "'";
    return report(app, sentence + kSeeHelp, kExitBadInput);
  } catch (const CLI::ParseError& error) {
    return report(app, error.what() + kSeeHelp, kExitBadInput);
  } catch (const Error& error) {
    return report(app, error.what(), error.exit_code());
  }
  return run(app, action);
}

}  // namespace
}  // namespace volley::cli

int main(int argc, char** argv) {
  // A closed pipe or a file size limit is then an error of write(), not a silent death.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  return volley::cli::parse_and_run(argc, argv);
}
