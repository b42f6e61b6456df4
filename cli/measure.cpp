// SPDX-License-Identifier: BSD-3-Clause
//
// See measure.h.
#include "measure.h"

#include <algorithm>
#include <chrono>

#include "call.h"
#include "device_tensors.h"
#include "progress.h"

namespace volley::cli {
namespace {

using check::DeviceCopy;
using check::HostTensor;
using core::Role;

// The first run warms caches and clocks up; if it was short, it is not counted. More runs follow
// until they took this long together, or there are enough for a median.
constexpr double kEnoughSeconds = 1.0;
constexpr int kMostRuns = 11;

// Times `run`, which throws on failure and returns when its work is done.
template <class Run>
Measurement measure(const Run& run) {
  const auto timed = [&] {
    const auto begin = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<double> seconds{timed()};
  if (seconds[0] < kEnoughSeconds) {
    seconds.clear();
    double total = 0;
    while (total < kEnoughSeconds && seconds.size() < kMostRuns) {
      seconds.push_back(timed());
      total += seconds.back();
    }
  }
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return {static_cast<int>(seconds.size()), *middle, 0};
}

void run_once(const volley_plan* plan, const volley_buffers& buffers, void* workspace) {
  volley_error error{};
  const uint64_t size = volley_plan_workspace_size(plan);
  if (volley_run(plan, &buffers, workspace, size, nullptr, &error) != VOLLEY_OK) {
    throw_error(error);
  }
}

Measurement run_on_host(const volley_plan* plan, const Request& request) {
  const volley_buffers buffers = buffers_of(request.instance.problem());
  const HostTensor workspace = make_workspace(plan);
  const Progress progress("running");
  return measure([&] { run_once(plan, buffers, workspace.data()); });
}

Measurement run_on_gpu(const volley_plan* plan, Request* request) {
  const DeviceTensors tensors(request->instance.tensors);
  const volley_buffers buffers = buffers_of(tensors.problem(request->instance.options));
  const DeviceCopy workspace = upload(make_workspace(plan), "the workspace");
  const Progress progress("running");
  const Measurement result = measure([&] {
    run_once(plan, buffers, workspace.data());
    if (const std::string error = check::gpu_synchronize(); !error.empty()) {
      failure("the GPU reported {}", error);
    }
  });
  for (const Role role : {Role::kO, Role::kLse}) {
    tensors.download(role, &request->instance[role]);
  }
  return result;
}

}  // namespace

double visible_pairs(const check::Case& c) {
  // Far beyond any length, and far enough from overflow.
  static constexpr int64_t kFar = int64_t{1} << 61;
  const auto near = [](int64_t value) { return std::clamp(value, -kFar, kFar); };
  const int64_t right = c.causal ? std::min<int64_t>(c.right < 0 ? 0 : c.right, 0) : c.right;
  double pairs = 0;
  for (int64_t n = 0; n < c.b; ++n) {
    const int64_t sq = check::query_span(c, n).used;
    const int64_t sk = check::key_span(c, n).used;
    int64_t offset = sk - sq;
    if (c.alignment == VOLLEY_ALIGN_TOP_LEFT) offset = 0;
    if (c.alignment == VOLLEY_ALIGN_EXPLICIT) offset = near(c.offset);
    for (int64_t i = 0; i < sq; ++i) {
      const int64_t at = i + offset;
      const int64_t first = c.left < 0 ? 0 : std::clamp<int64_t>(at - near(c.left), 0, sk);
      const int64_t last = right < 0 ? sk : std::clamp<int64_t>(at + near(right) + 1, 0, sk);
      pairs += static_cast<double>(std::max<int64_t>(last - first, 0));
    }
  }
  return pairs * static_cast<double>(c.hq);
}

Measurement run_and_time(const volley_plan* plan, Request* request) {
  const int32_t backend = volley_plan_backend(plan);
  const bool on_host = backend == VOLLEY_BACKEND_REFERENCE || backend == VOLLEY_BACKEND_CPU;
  Measurement result = on_host ? run_on_host(plan, *request) : run_on_gpu(plan, request);
  const check::Case& c = request->instance.c;
  result.flops = 2 * static_cast<double>(c.d + c.dv) * visible_pairs(c);
  return result;
}

}  // namespace volley::cli
