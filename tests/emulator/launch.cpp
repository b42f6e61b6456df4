// SPDX-License-Identifier: BSD-3-Clause
#include "emulator/launch.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cta.h"
#include "fmt.h"
#include "random.h"

namespace volley::emulator {
namespace {

// CTAs in an order of the seed's.
std::vector<int> shuffled(int grid, uint64_t seed) {
  std::vector<int> blocks(static_cast<size_t>(grid));
  std::iota(blocks.begin(), blocks.end(), 0);
  check::Random random({seed, 0xc7a});
  for (size_t i = blocks.size() - 1; i > 0; --i) {
    std::swap(blocks[i], blocks[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i)))]);
  }
  return blocks;
}

}  // namespace

void launch(int grid, int threads, int shared_bytes, uint64_t seed,
            const std::function<void()>& kernel) {
  if (grid < 1 || threads < 1 || threads > 1024 || threads % kLanes != 0 || shared_bytes < 0) {
    throw std::invalid_argument(
        fmt::format("a launch of {} CTAs of {} threads and {} bytes of shared memory; wanted are "
                    "whole warps, at most 32",
                    grid, threads, shared_bytes));
  }
  const LaunchShape shape{grid, threads, shared_bytes};
  const std::vector<int> blocks = shuffled(grid, seed);
  std::atomic<int> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      Cta cta(shape, seed, kernel);
      for (int i = next++; i < grid; i = next++) cta.run(blocks[static_cast<size_t>(i)]);
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
