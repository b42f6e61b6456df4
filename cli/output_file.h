// SPDX-License-Identifier: BSD-3-Clause
//
// OutputFile: a file that appears under its name only when it is complete. It is written beside its
// target and renamed at the end; when anything fails, nothing is left behind.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace volley::cli {

class OutputFile {
 public:
  explicit OutputFile(const std::string& path);  // throws when the file cannot be made
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void finish();  // without it the file is dropped

  // Throws now if a later OutputFile(path) would throw: asked before hours of work.
  static void check(const std::string& path);

 private:
  [[noreturn]] void fail() const;

  std::string path_;       // as the user wrote it, for messages
  std::string target_;     // behind symbolic links
  std::string temporary_;  // empty: written in place (a pipe or a device)
  int descriptor_ = -1;
};

}  // namespace volley::cli
