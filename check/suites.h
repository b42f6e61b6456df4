// SPDX-License-Identifier: BSD-3-Clause
//
// The suites that tests and `volley check` run on a backend. What the backend does not offer must
// be refused properly, and is counted apart. Read edge_cases.h, key_set.h and bits.h for what they
// hold.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace volley::check {

struct SuiteOptions {
  int32_t backend = 0;
  int64_t count = 100;  // of random problems
  uint64_t seed = 1;    // of the first one
};

// Called before each step, and once at the end with done == total.
using Progress = std::function<void(int64_t done, int64_t total, const std::string& name)>;

struct Report {
  int64_t passed = 0;
  int64_t refused = 0;
  std::vector<std::string> failures;  // one sentence each, with what it takes to repeat it

  bool ok() const { return failures.empty(); }
};

struct Suite {
  const char* name;
  const char* about;
  Report (*run)(const SuiteOptions& options, const Progress& progress);
};

std::span<const Suite> suites();
const Suite* find_suite(const std::string& name);  // NULL: there is none

}  // namespace volley::check
