// SPDX-License-Identifier: BSD-3-Clause
//
// Running sm90 plans: the plan's device is made current and the caller's restored, buffers are
// checked to lie on it, and the plan's row is launched.
#include "cuda/sm90_run.h"

#include <cuda_runtime_api.h>

#include <array>
#include <utility>

#include "cuda/kernels.h"
#include "cuda/launch.h"
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

core::Status check_place(const core::Plan& plan, Role role, const void* data) {
  if (data == nullptr) return {};
  cudaPointerAttributes at{};
  if (const cudaError_t error = cudaPointerGetAttributes(&at, data); error != cudaSuccess) {
    return core::make_status(VOLLEY_DEVICE_ERROR, VOLLEY_REASON_DEVICE,
                             "{} cannot be looked up: {}", core::info(role).name,
                             cudaGetErrorString(error));
  }
  if (at.type == cudaMemoryTypeManaged) return {};
  if (at.type != cudaMemoryTypeDevice) {
    return core::invalid(VOLLEY_REASON_DEVICE, "{} is in host memory, the plan's device is {}",
                         core::info(role).name, plan.device.name);
  }
  if (at.device != plan.device.id) {
    return core::invalid(VOLLEY_REASON_DEVICE, "{} is on cuda:{}, the plan's device is {}",
                         core::info(role).name, at.device, plan.device.name);
  }
  return {};
}

// (b, s, h, d)
Strides rows_strides(const core::Tensor& t) { return {t.stride[0], t.stride[1], t.stride[2]}; }
// (b, h, s)
Strides heads_strides(const core::Tensor& t) { return {t.stride[0], t.stride[2], t.stride[1]}; }

FwdCall make_call(const core::Problem& problem, const core::Buffers& buffers) {
  FwdCall call{};
  call.q = buffers[Role::kQ];
  call.k = buffers[Role::kK];
  call.v = buffers[Role::kV];
  call.o = buffers[Role::kO];
  call.lse = buffers.as<float>(Role::kLse);
  call.q_stride = rows_strides(problem[Role::kQ]);
  call.k_stride = rows_strides(problem[Role::kK]);
  call.v_stride = rows_strides(problem[Role::kV]);
  call.o_stride = rows_strides(problem[Role::kO]);
  call.lse_stride = heads_strides(problem[Role::kLse]);
  call.b = problem.b;
  call.sq = problem.max_sq;
  call.sk = problem.max_sk;
  call.hq = problem.hq;
  call.hk = problem.hk;
  call.offset = problem.band.offset(problem.max_sq, problem.max_sk);
  call.scale = problem.scale;
  return call;
}

}  // namespace

core::Status sm90_prepare(const core::Plan& plan) {
  const CurrentDevice device(plan.device.id);
  VOLLEY_TRY(device.status());
  return load_forward(kFwdConfigs[plan.config.row], kernel_of(plan));
}

core::Status sm90_run(const core::Plan& plan, const core::Buffers& buffers, core::Workspace,
                      void* stream) {
  for (const Role role : {Role::kQ, Role::kK, Role::kV, Role::kO, Role::kLse}) {
    VOLLEY_TRY(check_place(plan, role, buffers[role]));
  }
  const CurrentDevice device(plan.device.id);
  VOLLEY_TRY(device.status());
  const int sms = usable_sms(plan.problem.max_sms, plan.device.sms);
  return launch_forward(kFwdConfigs[plan.config.row], kernel_of(plan),
                        make_call(plan.problem, buffers), sms, stream);
}

}  // namespace volley::cuda
