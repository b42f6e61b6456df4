// SPDX-License-Identifier: BSD-3-Clause
//
// See progress.h. The work cannot be interrupted to draw, so a thread of its own draws.
#include "progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "fmt.h"

namespace volley::cli {
namespace {

constexpr auto kSilent = std::chrono::milliseconds(500);
constexpr auto kInterval = std::chrono::milliseconds(200);

void put(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

Progress::Progress(std::string what) : what_(std::move(what)) {
  if (isatty(STDERR_FILENO) != 1) return;
  drawer_ = std::thread([this] { draw_until_done(); });
}

Progress::~Progress() {
  if (!drawer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  drawer_.join();
}

void Progress::say(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

void Progress::draw_until_done() {
  std::unique_lock lock(mutex_);
  const auto done = [this] { return done_; };
  if (changed_.wait_for(lock, kSilent, done)) return;
  do {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin_;
    put(fmt::format("\r\x1b[K{} ({:.0f} s)", what_, elapsed.count()));
  } while (!changed_.wait_for(lock, kInterval, done));
  put("\r\x1b[K");  // wipe the line
}

}  // namespace volley::cli
