// SPDX-License-Identifier: BSD-3-Clause
//
// Errors of the command line. A command throws one; main.cpp prints its sentence and exits with its
// code. The library itself never throws: this is the command's own way out.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "fmt.h"

namespace volley::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitFailure = 1,    // the machine, the disk or a self-test failed
  kExitBadInput = 2,   // usage, a bad file, or a problem that the library refuses
  kExitDeviation = 3,  // the result is further from the stored answer than the rule allows
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode exit_code, const std::string& sentence)
      : std::runtime_error(sentence), exit_code_(exit_code) {}
  ExitCode exit_code() const { return exit_code_; }

 private:
  ExitCode exit_code_;
};

template <class... Args>
[[noreturn]] void bad_input(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kExitBadInput, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void failure(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kExitFailure, fmt::format(format, std::forward<Args>(args)...));
}

// Text from a file, made fit for one line of a terminal: control characters escaped, cut when long.
inline std::string printable(std::string_view text) {
  constexpr size_t kLongest = 60;
  std::string out;
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  if (text.size() > kLongest) {
    // Do not end inside a UTF-8 sequence.
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xc0u) == 0x80u) {
      out.pop_back();
    }
    if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xc0u) out.pop_back();
    out += "...";
  }
  return out;
}

}  // namespace volley::cli
