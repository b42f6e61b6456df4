// SPDX-License-Identifier: BSD-3-Clause
#include "suites.h"

#include "bits.h"
#include "edge_cases.h"
#include "fmt.h"
#include "key_set.h"

namespace volley::check {
namespace {

class Recorder {
 public:
  Recorder(int64_t total, const Progress& progress) : total_(total), progress_(progress) {}

  // `what` names the step so that a failure can be repeated.
  template <class Step>
  void add(const std::string& name, const std::string& what, const Step& step) {
    report_progress(name);
    const Verdict verdict = step();
    ++done_;
    report_.passed += verdict.result == Result::kPassed;
    report_.refused += verdict.result == Result::kRefused;
    if (!verdict.ok()) report_.failures.push_back(what + ": " + verdict.sentence);
  }

  Report finish() {
    report_progress("done");
    return std::move(report_);
  }

 private:
  void report_progress(const std::string& name) const {
    if (progress_) progress_(done_, total_, name);
  }

  int64_t total_;
  int64_t done_ = 0;
  const Progress& progress_;
  Report report_;
};

// The reference computes in float64 whatever the dtype: one wide and one narrow are enough for it.
std::vector<int32_t> dtypes_of(int32_t backend, int32_t op) {
  if (backend != VOLLEY_BACKEND_REFERENCE) return scope_of(backend, op).dtypes;
  if (op == VOLLEY_OP_BACKWARD) return {VOLLEY_F32};
  return {VOLLEY_F32, VOLLEY_E4M3};
}

template <class Make>
Report run_cases(const SuiteOptions& options, const Progress& progress, int32_t op,
                 const Make& make, Verdict (*check)(const Case&, int32_t)) {
  std::vector<Case> cases;
  for (const int32_t dtype : dtypes_of(options.backend, op)) {
    const std::vector<Case> more = make(dtype);
    cases.insert(cases.end(), more.begin(), more.end());
  }
  Recorder recorder(static_cast<int64_t>(cases.size()), progress);
  for (const Case& c : cases) {
    recorder.add(c.name, describe(c), [&] { return check(c, options.backend); });
  }
  return recorder.finish();
}

Verdict check_case(const Case& c, int32_t backend) {
  Instance instance = build(c);
  return c.op == VOLLEY_OP_BACKWARD ? check_backward(instance, backend)
                                    : check_forward(instance, backend);
}

Report run_edges(const SuiteOptions& options, const Progress& progress) {
  return run_cases(options, progress, VOLLEY_OP_FORWARD, edge_cases, check_case);
}

Report run_gradient_edges(const SuiteOptions& options, const Progress& progress) {
  return run_cases(options, progress, VOLLEY_OP_BACKWARD, gradient_cases, check_case);
}

Report run_keys(const SuiteOptions& options, const Progress& progress) {
  return run_cases(options, progress, VOLLEY_OP_FORWARD, mask_cases, check_key_set);
}

template <int32_t op>
Report run_random(const SuiteOptions& options, const Progress& progress) {
  Scope scope = scope_of(options.backend, op);
  if (op == VOLLEY_OP_BACKWARD) scope.max_pairs /= 4;  // the naive gradients are slow
  Recorder recorder(options.count, progress);
  for (int64_t i = 0; i < options.count; ++i) {
    const Case c = random_case(scope, options.seed + static_cast<uint64_t>(i));
    recorder.add(c.name, describe(c), [&] { return check_case(c, options.backend); });
  }
  return recorder.finish();
}

template <int32_t op>
Report run_bits(const SuiteOptions& options, const Progress& progress) {
  std::vector<Property> properties;
  for (const int32_t dtype : dtypes_of(options.backend, op)) {
    for (Property& property : bit_properties(dtype, op)) {
      property.name = fmt::format("{} {}", volley_dtype_name(dtype), property.name);
      properties.push_back(std::move(property));
    }
  }
  Recorder recorder(static_cast<int64_t>(properties.size()), progress);
  for (const Property& property : properties) {
    recorder.add(property.name, property.name, [&] { return property.check(options.backend); });
  }
  return recorder.finish();
}

constexpr Suite kSuites[] = {
    {"edges", "sizes, layouts, masks and magnitudes at which kernels go wrong", run_edges},
    {"random", "random problems within what the backend offers", run_random<VOLLEY_OP_FORWARD>},
    {"keys", "every key that a query must see is seen, and no other", run_keys},
    {"bits", "what must not change a single bit of the result", run_bits<VOLLEY_OP_FORWARD>},
    {"gradient edges", "the same edges for the backward, and each of its options",
     run_gradient_edges},
    {"gradient random", "random problems of the backward", run_random<VOLLEY_OP_BACKWARD>},
    {"gradient bits", "what must not change a single bit of the gradients",
     run_bits<VOLLEY_OP_BACKWARD>},
};

}  // namespace

std::span<const Suite> suites() { return kSuites; }

const Suite* find_suite(const std::string& name) {
  for (const Suite& suite : kSuites) {
    if (suite.name == name) return &suite;
  }
  return nullptr;
}

}  // namespace volley::check
