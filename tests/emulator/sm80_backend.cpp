// SPDX-License-Identifier: BSD-3-Clause
//
// The sm80 backend on host memory, by the emulator: the library's planning and launches, the
// kernels' own code. An executable that has this file among its sources does not link the library's
// sm80_backend.cpp.
#include "sm80_backend.h"

#include <atomic>
#include <exception>
#include <memory>
#include <utility>

#include "backend.h"
#include "cuda/sm80/forward.cuh"
#include "cuda/sm80/pack.cuh"
#include "cuda/sm80_launch.h"
#include "cuda/sm80_plan.h"
#include "emulator/launch.h"

namespace volley::emulator {
namespace {

std::atomic<uint64_t> seed{1};

core::Status run(const cuda::v2::Grid& grid, const std::function<void()>& kernel) {
  try {
    launch(grid.blocks, grid.threads, grid.shared, seed, kernel);
  } catch (const std::exception& error) {
    return core::make_status(VOLLEY_DEVICE_ERROR, VOLLEY_REASON_DEVICE, "{}", error.what());
  }
  return {};
}

template <int kRow>
core::Status forward(int row, const cuda::v2::Grid& grid, const cuda::v2::ForwardParams& p) {
  if constexpr (kRow == cuda::v2::kForwardRows) {
    return core::make_status(VOLLEY_INTERNAL, VOLLEY_REASON_NONE, "row {} is not in the table",
                             row);
  } else {
    if (row != kRow) return forward<kRow + 1>(row, grid, p);
    return run(grid, [&] { cuda::v2::forward<cuda::v2::forward_config(kRow)>(p); });
  }
}

class EmulatedQueue : public cuda::v2::Queue {
 public:
  core::Status pack(const cuda::v2::Grid& grid, const cuda::v2::PackParams& p) override {
    return run(grid, [&] { cuda::v2::pack(p); });
  }
  core::Status forward(int row, const cuda::v2::Grid& grid,
                       const cuda::v2::ForwardParams& p) override {
    return emulator::forward<0>(row, grid, p);
  }
};

// As for an A100, whose memory happens to be the host's.
core::Status plan(core::Plan* out) {
  const core::Device own = out->device;
  VOLLEY_TRY(core::find_device("a100", &out->device));
  const core::Status status = cuda::sm80_plan(out);
  out->device = own;
  return status;
}

core::Status prepare(core::Plan* plan) {
  plan->prepared.data = std::make_shared<cuda::v2::ForwardLaunch>(cuda::v2::make_forward(*plan));
  return {};
}

core::Status run_plan(const core::Plan& plan, const core::Buffers& buffers,
                      core::Workspace workspace, void*) {
  EmulatedQueue queue;
  const auto& launch = *static_cast<const cuda::v2::ForwardLaunch*>(plan.prepared.data.get());
  return enqueue_forward(launch, buffers, workspace, queue);
}

}  // namespace

void set_seed(uint64_t value) { seed = value; }

}  // namespace volley::emulator

namespace volley::core {

Backend sm80_backend() {
  return {VOLLEY_BACKEND_SM80, VOLLEY_DEVICE_CPU, true,
          emulator::plan,      emulator::prepare, emulator::run_plan};
}

}  // namespace volley::core
