// SPDX-License-Identifier: BSD-3-Clause
#include "command.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "temporary.h"

extern "C" char** environ;

namespace volley::cli::test {
namespace {

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Files, not pipes: a command that prints much never waits for its reader.
Outcome run(const std::string& program, std::vector<std::string> arguments,
            const std::string& standard_output, int output_descriptor) {
  const TemporaryFolder folder;
  const std::string out = standard_output.empty() ? folder.path("out") : standard_output;
  const std::string err = folder.path("err");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output_descriptor >= 0) {
    posix_spawn_file_actions_adddup2(&actions, output_descriptor, STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT,
                                     0600);
  }
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
  arguments.insert(arguments.begin(), program);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  Outcome outcome;
  if (posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ) == 0) {
    int status = 0;
    waitpid(child, &status, 0);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  posix_spawn_file_actions_destroy(&actions);
  if (standard_output.empty() && output_descriptor < 0) outcome.out = contents(out);
  outcome.err = contents(err);
  return outcome;
}

// Tests may run on a machine other than the one that built them.
std::string setting(const char* variable, const char* built_in) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : built_in;
}

std::string command() { return setting("TEST_COMMAND", VOLLEY_COMMAND); }

}  // namespace

Outcome volley(std::vector<std::string> arguments, const std::string& standard_output) {
  return run(command(), std::move(arguments), standard_output, -1);
}

Outcome shell(const std::string& script) {
  setenv("VOLLEY", command().c_str(), 1);
  return run("/bin/sh", {"-c", script}, "", -1);
}

Outcome volley_into_closed_pipe(std::vector<std::string> arguments) {
  int ends[2] = {};
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  close(ends[0]);
  const Outcome outcome = run(command(), std::move(arguments), "", ends[1]);
  close(ends[1]);
  return outcome;
}

bool is_one_sentence(const std::string& text) {
  return text.rfind("volley: ", 0) == 0 && text.size() < 800 && text.back() == '\n' &&
         std::count(text.begin(), text.end(), '\n') == 1;
}

std::string data_file(const std::string& name) {
  return setting("TEST_DATA", VOLLEY_TEST_DATA) + "/" + name + ".safetensors";
}

}  // namespace volley::cli::test
