// SPDX-License-Identifier: BSD-3-Clause
//
// `volley doctor`: prints what volley_doctor() of the library finds. The work is in src/doctor.cpp,
// so that C and Python users get the same page.
#include <memory>

#include "cli11.h"
#include "flags.h"
#include "print.h"

namespace volley::cli {
namespace {

ExitCode doctor(bool json) {
  const int32_t format = json ? VOLLEY_FORMAT_JSON : VOLLEY_FORMAT_TEXT;
  std::string text(volley_doctor(format, nullptr, 0), '\0');
  // The machine may change between the two calls; the first length is the one that counts.
  volley_doctor(format, text.data(), text.size() + 1);
  print(text);
  return kExitOk;
}

constexpr const char* kFooter =
    "Examples:\n"
    "  volley doctor\n"
    "  volley doctor --json\n"
    "\n"
    "Exit status: always 0; what is missing is in the text.";

}  // namespace

void add_doctor(CLI::App& app, Action* action) {
  CLI::App* command =
      app.add_subcommand("doctor", "Say what this machine has, what would run, what is missing");
  command->footer(kFooter);
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->callback([=] { *action = [json] { return doctor(*json); }; });
}

}  // namespace volley::cli
