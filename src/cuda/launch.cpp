// SPDX-License-Identifier: BSD-3-Clause
//
// Launches: kernel parameters from a call, the schedule, the launch itself. Host C++; kernels are
// entered through their addresses, so that no device code is compiled here.
#include "cuda/launch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cuda/kernels.h"
#include "cuda/schedule.h"
#include "cuda/tensor_map.h"

namespace volley::cuda {
namespace {

core::Status device_error(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  return core::make_status(VOLLEY_DEVICE_ERROR, VOLLEY_REASON_DEVICE, "{} failed: {} ({})", what,
                           cudaGetErrorString(error), cudaGetErrorName(error));
}

core::Status launch(const void* kernel, int grid, int threads, int shared, FwdParams& params,
                    void* stream) {
  void* arguments[] = {&params};
  const cudaError_t error = cudaLaunchKernel(
      kernel, dim3(static_cast<unsigned>(grid)), dim3(static_cast<unsigned>(threads)), arguments,
      static_cast<size_t>(shared), static_cast<cudaStream_t>(stream));
  return device_error(error, "launching the forward kernel");
}

FwdParams make_params(const FwdConfig& config, const FwdCall& call, const Schedule& schedule) {
  FwdParams p{};
  p.o = static_cast<Bf16*>(call.o);
  p.o_stride = call.o_stride;
  p.lse = call.lse;
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

core::Status encode_operands(const FwdConfig& config, const FwdCall& call, FwdParams* p) {
  const TensorGeometry q{"q",     call.q,   config.element, call.b,        call.sq,
                         call.hq, config.d, call.q_stride,  config.block_m};
  const TensorGeometry k{"k",     call.k,   config.element, call.b,        call.sk,
                         call.hk, config.d, call.k_stride,  config.block_n};
  const TensorGeometry v{"v",     call.v,    config.element, call.b,        call.sk,
                         call.hk, config.dv, call.v_stride,  config.block_n};
  core::Status status = encode_tensor_map(q, &p->q);
  if (status.ok()) status = encode_tensor_map(k, &p->k);
  if (status.ok()) status = encode_tensor_map(v, &p->v);
  return status;
}

}  // namespace

core::Status load_forward(const FwdConfig& config, const void* kernel) {
  VOLLEY_TRY(device_error(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                               shared_bytes(config)),
                          "loading the forward kernel"));
  cudaFuncAttributes attributes{};  // asking for them loads the kernel
  return device_error(cudaFuncGetAttributes(&attributes, fill_kernel()), "loading the fill kernel");
}

core::Status launch_forward(const FwdConfig& config, const void* kernel, const FwdCall& call,
                            int sms, void* stream) {
  if (call.b == 0 || call.hq == 0 || call.sq == 0) return {};
  const Schedule schedule = make_schedule(config, call.b, call.hq, call.sq, call.sk, sms);
  FwdParams params = make_params(config, call, schedule);
  if (call.sk == 0) return launch(fill_kernel(), schedule.grid, 256, 0, params, stream);
  if (core::Status status = encode_operands(config, call, &params); !status.ok()) return status;
  return launch(kernel, schedule.grid, threads(config), shared_bytes(config), params, stream);
}

}  // namespace volley::cuda
