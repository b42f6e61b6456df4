// SPDX-License-Identifier: BSD-3-Clause
//
// Launches: kernel parameters and schedule from a geometry, the launch itself. Host C++; kernels
// are entered through their addresses, so that no device code is compiled here.
#include "cuda/launch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cuda/kernels.h"
#include "cuda/schedule.h"

namespace volley::cuda {
namespace {

core::Status device_error(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // it is reported here: the caller's next question must not find it again
  return core::make_status(VOLLEY_DEVICE_ERROR, VOLLEY_REASON_DEVICE, "{} failed: {} ({})", what,
                           cudaGetErrorString(error), cudaGetErrorName(error));
}

// Fills in what does not depend on addresses.
FwdParams make_params(const FwdConfig& config, const FwdGeometry& call, const Schedule& schedule) {
  FwdParams p{};
  p.o_stride = call.o_stride;
  p.lse_stride = call.lse_stride;
  p.scale_log2 = static_cast<float>(call.scale * std::numbers::log2e);
  p.sq = static_cast<int>(call.sq);
  p.sk = static_cast<int>(call.sk);
  p.dv = config.dv;
  // Beyond these bounds nothing, or everything, is visible already.
  p.offset = static_cast<int>(std::clamp(call.offset, -call.sq, call.sk));
  p.heads = static_cast<int>(call.hq);
  p.group = static_cast<int>(call.hq / call.hk);
  p.batch_heads = static_cast<int>(call.b * call.hq);
  p.q_tiles = static_cast<int>(schedule.q_tiles);
  p.items = static_cast<int>(schedule.items);
  p.pair_tiles = schedule.pair_tiles ? 1 : 0;
  p.section = schedule.section;
  return p;
}

void make_maps(const FwdConfig& config, const FwdGeometry& call, FwdLaunch* out) {
  const TensorGeometry q{"q",     nullptr,  config.element, call.b,        call.sq,
                         call.hq, config.d, call.q_stride,  config.block_m};
  const TensorGeometry k{"k",     nullptr,  config.element, call.b,        call.sk,
                         call.hk, config.d, call.k_stride,  config.block_n};
  const TensorGeometry v{"v",     nullptr,   config.element, call.b,        call.sk,
                         call.hk, config.dv, call.v_stride,  config.block_n};
  out->q = make_operand_map(q);
  out->k = make_operand_map(k);
  out->v = make_operand_map(v);
}

cudaError_t enqueue(const FwdLaunch& launch, FwdParams* params, void* stream) {
  void* arguments[] = {params};
  return cudaLaunchKernel(launch.kernel, dim3(static_cast<unsigned>(launch.grid)),
                          dim3(static_cast<unsigned>(launch.threads)), arguments,
                          static_cast<size_t>(launch.shared), static_cast<cudaStream_t>(stream));
}

}  // namespace

FwdLaunch make_forward(const FwdConfig& config, const void* kernel, const FwdGeometry& geometry,
                       int sms) {
  FwdLaunch launch{};
  if (geometry.b == 0 || geometry.hq == 0 || geometry.sq == 0) return launch;
  const Schedule schedule =
      make_schedule(config, geometry.b, geometry.hq, geometry.sq, geometry.sk, sms);
  launch.params = make_params(config, geometry, schedule);
  launch.grid = schedule.grid;
  launch.loads = geometry.sk > 0;
  if (!launch.loads) {
    launch.kernel = fill_kernel();
    launch.threads = 256;
    return launch;
  }
  launch.kernel = kernel;
  launch.threads = threads(config);
  launch.shared = shared_bytes(config);
  make_maps(config, geometry, &launch);
  return launch;
}

core::Status load_forward(const FwdLaunch& launch) {
  if (launch.grid == 0) return {};
  VOLLEY_TRY(
      device_error(cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        launch.shared),
                   "loading the forward kernel"));
  cudaFuncAttributes attributes{};  // asking for them loads the kernel
  return device_error(cudaFuncGetAttributes(&attributes, launch.kernel),
                      "loading the forward kernel");
}

core::Status launch_forward(const FwdLaunch& launch, const FwdAddresses& at, void* stream) {
  if (launch.grid == 0) return {};
  FwdParams params = launch.params;
  params.o = static_cast<Bf16*>(at.o);
  params.lse = at.lse;
  if (launch.loads) {
    VOLLEY_TRY(map_at(launch.q, at.q, &params.q));
    VOLLEY_TRY(map_at(launch.k, at.k, &params.k));
    VOLLEY_TRY(map_at(launch.v, at.v, &params.v));
  }
  cudaError_t error = enqueue(launch, &params, stream);
  if (error == cudaErrorInvalidValue) {
    // A cudaDeviceReset since the plan was made took the kernel's shared memory limit with it.
    cudaGetLastError();
    VOLLEY_TRY(load_forward(launch));
    error = enqueue(launch, &params, stream);
  }
  return device_error(error, "launching the forward kernel");
}

}  // namespace volley::cuda
