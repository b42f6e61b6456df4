// SPDX-License-Identifier: BSD-3-Clause
#include "log.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

namespace volley::core {
namespace {

// One lock for callback and user pointer together, held while the callback runs: after
// volley_set_log returns, the old callback is not called again.
struct Sink {
  std::recursive_mutex mutex;  // a callback may call the library, volley_set_log included
  volley_log_callback callback = nullptr;
  void* user = nullptr;
  std::atomic<bool> present = false;  // is there a callback? For those who must not wait
};

Sink& sink() {
  static Sink instance;
  return instance;
}

bool environment_asks() {
  const char* value = std::getenv("VOLLEY_LOG");
  return value != nullptr && std::string_view(value) == "plan";
}

}  // namespace

bool log_wanted() { return sink().present.load(std::memory_order_relaxed) || environment_asks(); }

void log_line(const std::string& line) {
  const std::lock_guard lock(sink().mutex);
  if (sink().callback != nullptr) {
    sink().callback(line.c_str(), sink().user);
  } else if (environment_asks()) {
    std::fprintf(stderr, "volley: %s\n", line.c_str());
  }
}

void set_log(volley_log_callback callback, void* user) {
  const std::lock_guard lock(sink().mutex);
  sink().callback = callback;
  sink().user = user;
  sink().present.store(callback != nullptr, std::memory_order_relaxed);
}

}  // namespace volley::core
