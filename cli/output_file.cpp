// SPDX-License-Identifier: BSD-3-Clause
//
// See output_file.h.
#include "output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "error.h"

namespace volley::cli {
namespace {

// Where a write to `path` ends up: the file that a symbolic link points to, not the link.
std::string resolve(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;  // it does not exist yet
  std::string out = real;
  std::free(real);
  return out;
}

// The permissions a plain open() would give.
mode_t default_mode() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path), target_(resolve(path)) {
  struct stat found {};
  const bool exists = stat(target_.c_str(), &found) == 0;
  if (exists && !S_ISREG(found.st_mode)) {
    // A pipe or a device must not be replaced by a file.
    descriptor_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail();
    return;
  }
  if (exists && access(target_.c_str(), W_OK) != 0) fail();  // a read-only file stays as it is
  std::string name = target_ + ".XXXXXX";
  descriptor_ = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail();
  temporary_ = name;
  fchmod(descriptor_, exists ? found.st_mode & 07777 : default_mode());
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void OutputFile::finish() {
  // Some file systems report a full disk only here.
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0) fail();
  if (temporary_.empty()) return;
  if (rename(temporary_.c_str(), target_.c_str()) != 0) fail();
  temporary_.clear();
}

void OutputFile::check(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) {
    return;  // opening a pipe for a test would end its reader
  }
  OutputFile probe(path);
}

void OutputFile::fail() const {
  failure("cannot write '{}': {}", printable(path_), std::strerror(errno));
}

}  // namespace volley::cli
