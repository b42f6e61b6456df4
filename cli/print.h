// SPDX-License-Identifier: BSD-3-Clause
//
// Output of the commands. Results go to stdout; whether that worked is asked once, at the end.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "error.h"

namespace volley::cli {

inline int stdout_error = 0;  // errno of the first write that failed

inline void print(const std::string& text) {
  const bool complete = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!complete && stdout_error == 0) stdout_error = errno;
}

inline void flush_stdout() {
  if (std::fflush(stdout) != 0 && stdout_error == 0) stdout_error = errno;
}

inline void warn(const char* command, const std::string& sentence) {
  std::fputs(fmt::format("volley: {}: warning: {}\n", command, sentence).c_str(), stderr);
}

// Throws when stdout did not take everything. A reader that left early (`| head`) is no failure.
inline void finish_stdout() {
  flush_stdout();
  if (stdout_error == 0 || stdout_error == EPIPE) return;
  failure("cannot write to standard output: {}", std::strerror(stdout_error));
}

}  // namespace volley::cli
