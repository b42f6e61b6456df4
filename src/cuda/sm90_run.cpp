// SPDX-License-Identifier: BSD-3-Clause
//
// Running sm90 plans. What does not depend on addresses is computed when the plan is made; a run
// checks that buffers lie on the plan's device, makes that current, and launches.
#include "cuda/sm90_run.h"

#include <cuda_runtime_api.h>

#include <array>
#include <utility>

#include "cuda/kernels.h"
#include "cuda/launch.h"
#include "cuda/place.h"
#include "cuda/schedule.h"

namespace volley::cuda {
namespace {

using core::Role;

// Makes a device current for as long as this lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    error_ = cudaGetDevice(&previous_);
    if (error_ == cudaSuccess && device != previous_) {
      error_ = cudaSetDevice(device);
      restore_ = error_ == cudaSuccess;
    }
  }
  ~CurrentDevice() {
    if (restore_) cudaSetDevice(previous_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  core::Status status() const {
    if (error_ == cudaSuccess) return {};
    return core::make_status(VOLLEY_DEVICE_ERROR, VOLLEY_REASON_DEVICE,
                             "the plan's device cannot be made current: {}",
                             cudaGetErrorString(error_));
  }

 private:
  int previous_ = 0;
  bool restore_ = false;
  cudaError_t error_ = cudaSuccess;
};

template <int... kRows>
const void* kernel_of(int row, std::integer_sequence<int, kRows...>) {
  static const std::array<const void*, sizeof...(kRows)> kernels = {fwd_kernel<kRows>()...};
  return kernels[static_cast<size_t>(row)];
}

const void* kernel_of(const core::Plan& plan) {
  return kernel_of(plan.config.row, std::make_integer_sequence<int, kFwdRows>{});
}

// (b, s, h, d)
Strides rows_strides(const core::Tensor& t) { return {t.stride[0], t.stride[1], t.stride[2]}; }
// (b, h, s)
Strides heads_strides(const core::Tensor& t) { return {t.stride[0], t.stride[2], t.stride[1]}; }

FwdGeometry geometry_of(const core::Problem& problem) {
  FwdGeometry geometry{};
  geometry.q_stride = rows_strides(problem[Role::kQ]);
  geometry.k_stride = rows_strides(problem[Role::kK]);
  geometry.v_stride = rows_strides(problem[Role::kV]);
  geometry.o_stride = rows_strides(problem[Role::kO]);
  geometry.lse_stride = heads_strides(problem[Role::kLse]);
  geometry.b = problem.b;
  geometry.sq = problem.max_sq;
  geometry.sk = problem.max_sk;
  geometry.hq = problem.hq;
  geometry.hk = problem.hk;
  geometry.offset = problem.band.offset(problem.max_sq, problem.max_sk);
  geometry.scale = problem.scale;
  return geometry;
}

}  // namespace

core::Status sm90_prepare(core::Plan* plan) {
  const CurrentDevice device(plan->device.id);
  VOLLEY_TRY(device.status());
  auto launch = std::make_shared<FwdLaunch>(
      make_forward(kFwdConfigs[plan->config.row], kernel_of(*plan), geometry_of(plan->problem),
                   usable_sms(plan->problem.max_sms, plan->device.sms)));
  VOLLEY_TRY(load_forward(*launch));
  plan->prepared.data = std::move(launch);
  return {};
}

core::Status sm90_run(const core::Plan& plan, const core::Buffers& buffers, core::Workspace,
                      void* stream) {
  VOLLEY_TRY(check_places(plan.device, buffers));
  const CurrentDevice device(plan.device.id);
  VOLLEY_TRY(device.status());
  const auto& launch = *static_cast<const FwdLaunch*>(plan.prepared.data.get());
  return launch_forward(launch,
                        {buffers[Role::kQ], buffers[Role::kK], buffers[Role::kV], buffers[Role::kO],
                         buffers.as<float>(Role::kLse)},
                        stream);
}

}  // namespace volley::cuda
