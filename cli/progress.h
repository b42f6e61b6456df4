// SPDX-License-Identifier: BSD-3-Clause
//
// Progress: a line on stderr that lives while long work goes on, and leaves no trace. It is silent
// when stderr is no terminal and for the first half second, so short work shows nothing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace volley::cli {

class Progress {
 public:
  explicit Progress(std::string what);  // "running"
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(std::string what);  // replaces the text; the clock goes on

 private:
  void draw_until_done();

  std::string what_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread drawer_;  // not joinable: silent
};

}  // namespace volley::cli
