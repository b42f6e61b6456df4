// SPDX-License-Identifier: BSD-3-Clause
//
// See timing.h.
#include "timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace volley::cli {

double Times::quantile(double share) const {
  std::vector<double> sorted = ms;
  std::sort(sorted.begin(), sorted.end());
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - std::floor(at)) * (sorted[above] - sorted[below]);
}

Times wall(const Call& call) {
  constexpr size_t kFewest = 7, kMost = 50;
  constexpr double kEnoughMs = 1000;
  Times times;
  double total = 0;
  call(nullptr);
  while (times.ms.size() < kFewest || (total < kEnoughMs && times.ms.size() < kMost)) {
    const auto begin = std::chrono::steady_clock::now();
    call(nullptr);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    times.ms.push_back(took.count());
    total += took.count();
  }
  return times;
}

}  // namespace volley::cli
