// SPDX-License-Identifier: BSD-3-Clause
//
// How a time is taken: the protocols of docs/tuning.md. A call is anything that enqueues work on a
// stream (on the CPU: does it). The GPU's are in timing_gpu.cpp, which needs the CUDA run time and
// is absent from builds without it; no GPU backend is there then either.
#pragma once

#include <functional>
#include <optional>
#include <vector>

namespace volley::cli {

using Call = std::function<void(void* stream)>;

struct Times {
  std::vector<double> ms;  // of one call each; never empty
  std::optional<double> ghz;

  double quantile(double share) const;  // 0.5: the median
};

// On the CPU: at least 7 calls after one that warms up.
Times wall(const Call& call);

// Three rounds: 100 ms of the call, then at least 7 replays of a graph of at least 20.
Times sustained(const Call& call);

// 12 times: 15 ms idle, then one call behind a spin of the device.
Times burst(const Call& call);

// Host time of a call while the queue has room, and of launching an empty kernel that takes as many
// bytes of parameters; in turn.
struct HostTimes {
  Times call;
  Times empty;
};
HostTimes host(const Call& call);

}  // namespace volley::cli
