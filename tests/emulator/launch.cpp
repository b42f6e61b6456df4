// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/launch.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cta.h"
#include "fmt.h"

namespace volley::emulator {

void launch(int grid, int threads, int shared_bytes, uint64_t seed,
            const std::function<void()>& kernel) {
  if (grid < 1 || threads < 1 || threads > 1024 || threads % kLanes != 0 || shared_bytes < 0) {
    throw std::invalid_argument(
        fmt::format("a launch of {} CTAs of {} threads and {} bytes of shared memory; wanted are "
                    "whole warps, at most 32",
                    grid, threads, shared_bytes));
  }
  const LaunchShape shape{grid, threads, shared_bytes};
  std::atomic<int> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      Cta cta(shape, seed, kernel);
      for (int block = next++; block < grid; block = next++) cta.run(block);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
      next = grid;
    }
  };
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  {
    std::vector<std::jthread> helpers;
    for (int i = 1; i < std::min(cores, grid); ++i) helpers.emplace_back(work);
    work();
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace volley::emulator
