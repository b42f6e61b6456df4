// SPDX-License-Identifier: BSD-3-Clause
//
// Runs the built command `volley` as a user would, and hands back what it printed. The environment
// variables TEST_COMMAND and TEST_DATA name the command and tests/data when they lie elsewhere than
// where the build left them.
#pragma once

#include <string>
#include <vector>

namespace volley::cli::test {

struct Outcome {
  int code = -1;  // exit code; 128 + signal when it was killed
  std::string out;
  std::string err;
};

// standard_output: a file that gets stdout, instead of `out`.
Outcome volley(std::vector<std::string> arguments, const std::string& standard_output = "");

// `script` for sh, in which "$VOLLEY" is the command.
Outcome shell(const std::string& script);

// With stdout a pipe that nobody reads.
Outcome volley_into_closed_pipe(std::vector<std::string> arguments);

// Is it one line, "volley: ..."?
bool is_one_sentence(const std::string& text);

std::string data_file(const std::string& name);  // in tests/data

}  // namespace volley::cli::test
