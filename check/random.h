// SPDX-License-Identifier: BSD-3-Clause
//
// Random: the generator behind every random test value. splitmix64, so that a seed means the same
// values with every compiler and standard library, and streams of different keys are independent.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>
#include <utility>

namespace volley::check {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // A stream of its own for each list of keys: Random({seed, role, sequence}).
  Random(std::initializer_list<uint64_t> keys) {
    for (const uint64_t key : keys) state_ = Random(state_ ^ key).bits();
  }

  uint64_t bits() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }

  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // in [0, 1)
  double uniform(double low, double high) { return low + (high - low) * uniform(); }

  // In [low, high]; the bias of the remainder does not matter here.
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
  }

  bool chance(double probability) { return uniform() < probability; }

  template <class Container>
  auto pick(const Container& from) {
    return from[static_cast<size_t>(integer(0, static_cast<int64_t>(from.size()) - 1))];
  }

  double normal() {  // Box-Muller, which makes two at a time; 1 - u is never 0
    if (!std::isnan(spare_)) return std::exchange(spare_, NAN);
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    return radius * std::cos(angle);
  }

 private:
  uint64_t state_ = 0;
  double spare_ = NAN;
};

}  // namespace volley::check
