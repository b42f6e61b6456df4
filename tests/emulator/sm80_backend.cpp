// SPDX-License-Identifier: BSD-3-Clause
//
// The sm80 backend on host memory, by the emulator: the library's planning and launches, the
// kernels' own code. An executable that has this file among its sources does not link the library's
// sm80_backend.cpp.
#include "sm80_backend.h"

#include <atomic>
#include <cstring>
#include <exception>

#include "backend.h"
#include "cuda/sm80/backward.cuh"
#include "cuda/sm80/forward.cuh"
#include "cuda/sm80/gradients.cuh"
#include "cuda/sm80/pack.cuh"
#include "cuda/sm80/query_gradients.cuh"
#include "cuda/sm80/sink_gradient.cuh"
#include "cuda/sm80_launch.h"
#include "cuda/sm80_plan.h"
#include "emulator/launch.h"

namespace volley::emulator {
namespace {

std::atomic<uint64_t> seed{1};
std::atomic<const char*> device{kDevice};

core::Status run(const cuda::v2::Grid& grid, const std::function<void()>& kernel) {
  try {
    launch(grid.blocks, grid.threads, grid.shared, seed++, kernel);
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

template <int kRow>
core::Status backward(int row, const cuda::v2::Grid& grid, const cuda::v2::BackwardParams& p) {
  if constexpr (kRow == cuda::v2::kBackwardRows) {
    return core::make_status(VOLLEY_INTERNAL, VOLLEY_REASON_NONE, "row {} is not in the table",
                             row);
  } else {
    if (row != kRow) return backward<kRow + 1>(row, grid, p);
    return run(grid, [&] { cuda::v2::backward<cuda::v2::backward_config(kRow)>(p); });
  }
}

template <int kRow>
core::Status query_gradients(int row, const cuda::v2::Grid& grid,
                             const cuda::v2::QueryGradientParams& p) {
  if constexpr (kRow == cuda::v2::kQueryRows) {
    return core::make_status(VOLLEY_INTERNAL, VOLLEY_REASON_NONE, "row {} is not in the table",
                             row);
  } else {
    if (row != kRow) return query_gradients<kRow + 1>(row, grid, p);
    return run(grid, [&] { cuda::v2::query_gradients<cuda::v2::query_config(kRow)>(p); });
  }
}

class EmulatedQueue : public cuda::v2::Queue {
 public:
  core::Status zero(void* data, uint64_t bytes) override {
    std::memset(data, 0, bytes);
    return {};
  }
  core::Status pack(const cuda::v2::Grid& grid, const cuda::v2::PackParams& p) override {
    return run(grid, [&] { cuda::v2::pack(p); });
  }
  core::Status forward(int row, const cuda::v2::Grid& grid,
                       const cuda::v2::ForwardParams& p) override {
    return emulator::forward<0>(row, grid, p);
  }
  core::Status delta(cuda::Element element, const cuda::v2::Grid& grid,
                     const cuda::v2::DeltaParams& p) override {
    using cuda::Element;
    if (element == Element::kBf16) {
      return run(grid, [&] { cuda::v2::compute_delta<Element::kBf16>(p); });
    }
    return run(grid, [&] { cuda::v2::compute_delta<Element::kF16>(p); });
  }
  core::Status backward(int row, const cuda::v2::Grid& grid,
                        const cuda::v2::BackwardParams& p) override {
    return emulator::backward<0>(row, grid, p);
  }
  core::Status write_dq(const cuda::v2::Grid& grid, const cuda::v2::DqParams& p) override {
    return run(grid, [&] { cuda::v2::write_dq(p); });
  }
  core::Status query_gradients(int row, const cuda::v2::Grid& grid,
                               const cuda::v2::QueryGradientParams& p) override {
    return emulator::query_gradients<0>(row, grid, p);
  }
  core::Status write_dbias(const cuda::v2::Grid& grid, const cuda::v2::DbiasParams& p) override {
    return run(grid, [&] { cuda::v2::write_dbias(p); });
  }
  core::Status sink_gradient(const cuda::v2::Grid& grid, const cuda::v2::DsinkParams& p) override {
    return run(grid, [&] { cuda::v2::sink_gradient(p); });
  }
};

// As for a GPU whose memory happens to be the host's.
core::Status plan(core::Plan* out) {
  const core::Device own = out->device;
  VOLLEY_TRY(core::find_device(device.load(), &out->device));
  const core::Status status = cuda::sm80_plan(out);
  out->device = own;
  return status;
}

core::Status prepare(core::Plan*) { return {}; }

core::Status run_plan(const core::Plan& plan, const core::Buffers& buffers,
                      core::Workspace workspace, void*) {
  EmulatedQueue queue;
  return plan.problem.op == VOLLEY_OP_BACKWARD
             ? enqueue_backward(cuda::v2::make_backward(plan), buffers, workspace, queue)
             : enqueue_forward(cuda::v2::make_forward(plan), buffers, workspace, queue);
}

}  // namespace

void set_seed(uint64_t value) { seed = value; }
void set_device(const char* name) { device = name; }

}  // namespace volley::emulator

namespace volley::core {

Backend sm80_backend() {
  return {VOLLEY_BACKEND_SM80, VOLLEY_DEVICE_CPU, true,
          emulator::plan,      emulator::prepare, emulator::run_plan};
}

}  // namespace volley::core
