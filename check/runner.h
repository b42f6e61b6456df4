// SPDX-License-Identifier: BSD-3-Clause
//
// Runs an Instance on a backend through the C ABI, the way a caller would: plan, workspace, run. It
// watches what a caller cannot see: that inputs, gaps and margins stay as they were, and that a
// refusal touches nothing. check_forward() then compares with the reference. Read suites.h next.
#pragma once

#include <string>

#include "case.h"
#include "naive.h"

namespace volley::check {

struct Answer {
  int32_t code = VOLLEY_OK;
  int32_t reason = VOLLEY_REASON_NONE;
  std::string message;
  std::string broken;  // what the call did behind its caller's back; empty when nothing

  bool ok() const { return code == VOLLEY_OK && broken.empty(); }
};

// Outputs are poisoned first, or get their start values; GPU backends work on device copies and
// hand the outputs back.
Answer run(Instance& instance, int32_t backend);

// Can this machine and this build run the backend at all? If not, *why says so in one sentence.
bool backend_available(int32_t backend, std::string* why);

// The float64 result of the reference backend, and the yardstick.
struct Oracle {
  Answer answer;  // of the reference
  HostTensor o;   // float64
  HostTensor lse;
  Naive naive;
};
Oracle oracle_of(const Instance& instance);
Oracle exact_of(const Instance& instance);  // without the yardstick, which takes longest

enum class Result { kPassed, kRefused, kFailed };
struct Verdict {
  Result result = Result::kPassed;
  std::string sentence;

  bool ok() const { return result != Result::kFailed; }
};

// kPassed when the call went well (its numbers are another matter). A refusal is right when the
// backend need not offer this (offered.h), its reason fits and no output was touched.
Verdict judge_answer(const Instance& instance, int32_t backend, const Answer& answer);

// Runs and compares by the tolerance rule.
Verdict check_forward(Instance& instance, int32_t backend);

// Compares outputs that are there already.
Verdict compare_forward(const Instance& instance, const Oracle& oracle);

// Fills o and lse of a backward's instance by the forward of a backend, the reference's rounded;
// their unused rows stay poisoned.
Verdict fill_forward(Instance& instance, int32_t backend = VOLLEY_BACKEND_REFERENCE);

// The backward's twin of check_forward, with o and lse of fill_forward() by `forward`.
Verdict check_backward(Instance& instance, int32_t backend,
                       int32_t forward = VOLLEY_BACKEND_REFERENCE);

}  // namespace volley::check
