// SPDX-License-Identifier: BSD-3-Clause
//
// Running sm80 plans: the launches of sm80_launch.cpp, on a stream.
#include "cuda/sm80_run.h"

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "cuda/check_lengths.h"
#include "cuda/current_device.h"
#include "cuda/place.h"
#include "cuda/sm80/kernels.h"
#include "cuda/sm80_launch.h"

namespace volley::cuda {
namespace {

class StreamQueue : public v2::Queue {
 public:
  explicit StreamQueue(void* stream) : stream_(static_cast<cudaStream_t>(stream)) {}

  core::Status zero(void* data, uint64_t bytes) override {
    return device_error(cudaMemsetAsync(data, 0, bytes, stream_), "clearing the workspace");
  }
  core::Status pack(const v2::Grid& grid, const v2::PackParams& params) override {
    return launch(v2::pack_kernel(), grid, &params, "launching the packing kernel");
  }
  core::Status forward(int row, const v2::Grid& grid, const v2::ForwardParams& params) override {
    return launch(v2::forward_kernel(row), grid, &params, "launching the forward kernel");
  }
  core::Status delta(Element element, const v2::Grid& grid,
                     const v2::DeltaParams& params) override {
    return launch(v2::delta_kernel(element), grid, &params, "launching the delta kernel");
  }
  core::Status backward(int row, const v2::Grid& grid, const v2::BackwardParams& params) override {
    return launch(v2::backward_kernel(row), grid, &params, "launching the backward kernel");
  }
  core::Status write_dq(const v2::Grid& grid, const v2::DqParams& params) override {
    return launch(v2::dq_kernel(), grid, &params, "launching the kernel for dq");
  }
  core::Status query_gradients(int row, const v2::Grid& grid,
                               const v2::QueryGradientParams& params) override {
    return launch(v2::query_kernel(row), grid, &params, "launching the kernel for query tiles");
  }
  core::Status write_dbias(const v2::Grid& grid, const v2::DbiasParams& params) override {
    return launch(v2::dbias_kernel(), grid, &params, "launching the kernel for dbias");
  }
  core::Status sink_gradient(const v2::Grid& grid, const v2::DsinkParams& params) override {
    return launch(v2::dsink_kernel(), grid, &params, "launching the kernel for dsink");
  }

 private:
  core::Status launch(const void* kernel, const v2::Grid& grid, const void* params,
                      const char* what) {
    void* arguments[] = {const_cast<void*>(params)};
    cudaError_t error = cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(grid.blocks)),
                                         dim3(static_cast<unsigned>(grid.threads)), arguments,
                                         static_cast<size_t>(grid.shared), stream_);
    if (error == cudaErrorInvalidValue) {
      // A cudaDeviceReset since the plan was made took the kernel's shared memory limit with it.
      cudaGetLastError();
      VOLLEY_TRY(load_kernel(kernel, grid.shared, what));
      error = cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(grid.blocks)),
                               dim3(static_cast<unsigned>(grid.threads)), arguments,
                               static_cast<size_t>(grid.shared), stream_);
    }
    return device_error(error, what);
  }

  cudaStream_t stream_;
};

struct Prepared {
  v2::ForwardLaunch forward;  // one of the two
  v2::BackwardLaunch backward;
  bool checks;  // runs look at the lengths first (check_lengths.h)
};

core::Status load_forward(const v2::ForwardLaunch& launch) {
  if (launch.grid.blocks == 0) return {};
  return load_kernel(v2::forward_kernel(launch.row), launch.grid.shared,
                     "loading the forward kernel");
}

core::Status load_query_gradients(const v2::BackwardLaunch& launch) {
  if (launch.dbias.grid.blocks > 0) {
    VOLLEY_TRY(load_kernel(v2::dbias_kernel(), 0, "loading the kernel for dbias"));
  }
  if (launch.dsink.grid.blocks > 0) {
    VOLLEY_TRY(
        load_kernel(v2::dsink_kernel(), launch.dsink.grid.shared, "loading the kernel for dsink"));
  }
  if (launch.queries.grid.blocks == 0) return {};
  return load_kernel(v2::query_kernel(launch.queries.row), launch.queries.grid.shared,
                     "loading the kernel for query tiles");
}

core::Status load_backward(const v2::BackwardLaunch& launch) {
  VOLLEY_TRY(load_query_gradients(launch));
  if (launch.delta_grid.blocks > 0) {
    VOLLEY_TRY(load_kernel(v2::delta_kernel(launch.element), launch.delta_grid.shared,
                           "loading the delta kernel"));
  }
  if (launch.dq_grid.blocks > 0) {
    VOLLEY_TRY(load_kernel(v2::dq_kernel(), 0, "loading the kernel for dq"));
  }
  if (launch.grid.blocks == 0) return {};
  return load_kernel(v2::backward_kernel(launch.row), launch.grid.shared,
                     "loading the backward kernel");
}

}  // namespace

core::Status sm80_prepare(core::Plan* plan) {
  const CurrentDevice device(plan->device.id);
  VOLLEY_TRY(device.status());
  auto prepared = std::make_shared<Prepared>();
  prepared->checks = checks_lengths();
  if (plan->problem.op == VOLLEY_OP_BACKWARD) {
    prepared->backward = v2::make_backward(*plan);
    VOLLEY_TRY(load_backward(prepared->backward));
  } else {
    prepared->forward = v2::make_forward(*plan);
    VOLLEY_TRY(load_forward(prepared->forward));
  }
  VOLLEY_TRY(load_kernel(v2::pack_kernel(), 0, "loading the packing kernel"));
  plan->prepared.data = std::move(prepared);
  return {};
}

core::Status sm80_run(const core::Plan& plan, const core::Buffers& buffers,
                      core::Workspace workspace, void* stream) {
  VOLLEY_TRY(check_places(plan.device, buffers, {workspace.data, plan.workspace}));
  const CurrentDevice device(plan.device.id);
  VOLLEY_TRY(device.status());
  const auto& prepared = *static_cast<const Prepared*>(plan.prepared.data.get());
  if (prepared.checks) VOLLEY_TRY(check_lengths(plan.problem, buffers, stream));
  StreamQueue queue(stream);
  return plan.problem.op == VOLLEY_OP_BACKWARD
             ? v2::enqueue_backward(prepared.backward, buffers, workspace, queue)
             : v2::enqueue_forward(prepared.forward, buffers, workspace, queue);
}

}  // namespace volley::cuda
