// SPDX-License-Identifier: BSD-3-Clause
//
// Launches: kernel parameters and schedule from a geometry, the launch itself. Host C++; kernels
// are entered through their addresses, so that no device code is compiled here.
#include "cuda/launch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cuda/band.h"
#include "cuda/current_device.h"
#include "cuda/kernels.h"
#include "cuda/schedule.h"

namespace volley::cuda {
namespace {

i64 offset_of(const FwdGeometry& call) { return call.relative ? call.sk - call.sq : call.offset; }

Lengths make_lengths(const FwdGeometry& call) {
  Lengths l{};
  l.batch = static_cast<int>(call.b);
  l.total_q = static_cast<int>(call.q.rows);
  l.total_k = static_cast<int>(call.k.rows);
  const i64 offset = call.relative ? 0 : call.offset;
  l.low = low_of_band(call.left, offset);
  l.high = high_of_band(call.right, offset);
  l.relative = call.relative ? 1 : 0;
  if (call.softcap > 0) {
    l.softcap = static_cast<float>(2 * std::numbers::log2e * call.scale / call.softcap);
  }
  return l;
}

// Fills in what does not depend on addresses.
FwdParams make_params(const FwdGeometry& call, const Schedule& schedule) {
  FwdParams p{};
  p.o_stride = call.o_stride;
  p.lse_stride = call.lse_stride;
  p.sink_stride = call.sink_stride;
  p.sink_type = call.sink;
  p.o_is_f32 = call.o_is_f32 ? 1 : 0;
  const double logit = call.softcap > 0 ? call.softcap : call.scale;  // of a score of 1
  p.scale_log2 = static_cast<float>(logit * std::numbers::log2e);
  p.sq = static_cast<int>(call.sq);
  p.sk = static_cast<int>(call.sk);
  p.dv = static_cast<int>(call.dv);
  p.offset = narrow(offset_of(call) + bounded(call.right));
  p.heads = static_cast<int>(call.hq);
  p.group = static_cast<int>(call.hq / call.hk);
  p.batch_heads = static_cast<int>(call.b * call.hq);
  p.q_tiles = static_cast<int>(schedule.q_tiles);
  p.end_tile = static_cast<int>(schedule.tiles);
  p.section = schedule.section;
  p.lengths = make_lengths(call);
  return p;
}

void make_maps(const FwdConfig& config, const FwdGeometry& call, FwdLaunch* out) {
  const TensorGeometry q{"q",     nullptr, config.element, call.q.batch, call.q.rows,
                         call.hq, call.d,  call.q_stride,  kRowsPerGroup};
  TensorGeometry k{"k",     nullptr, config.element, call.k.batch,  call.k.rows,
                   call.hk, call.d,  call.k_stride,  config.block_n};
  TensorGeometry v{"v",     nullptr, config.element, call.k.batch,  call.k.rows,
                   call.hk, call.dv, call.v_stride,  config.block_n};
  if (!out->has_keys) {
    // A map cannot describe an empty tensor. Blocks loaded through this one are hidden and cleared.
    k = v = q;
    k.box_rows = v.box_rows = config.block_n;
  }
  out->q = make_operand_map(q);
  out->k = make_operand_map(k);
  out->v = make_operand_map(v);
}

void set_addresses(const FwdAddresses& at, FwdParams* p) {
  p->o = at.o;
  p->lse = at.lse;
  p->sink = at.sink;
  p->lengths.cu_q = at.cu_q;
  p->lengths.cu_k = at.cu_k;
  p->lengths.used_q = at.used_q;
  p->lengths.used_k = at.used_k;
}

// Nearly always one launch: more where CTAs get more tiles than they can remember.
cudaError_t enqueue(const FwdLaunch& launch, const FwdParams& call, void* stream) {
  FwdParams params = call;
  void* arguments[] = {&params};
  i64 first = 0;
  do {
    params.first_tile = static_cast<int>(first);
    params.end_tile = static_cast<int>(std::min<i64>(call.end_tile, first + launch.tiles));
    const cudaError_t error =
        cudaLaunchKernel(launch.kernel, dim3(static_cast<unsigned>(launch.grid)),
                         dim3(static_cast<unsigned>(launch.threads)), arguments,
                         static_cast<size_t>(launch.shared), static_cast<cudaStream_t>(stream));
    if (error != cudaSuccess) return error;
    first += launch.tiles;
  } while (first < call.end_tile);
  return cudaSuccess;
}

}  // namespace

FwdLaunch make_forward(const FwdConfig& config, const void* kernel, const FwdGeometry& geometry,
                       int sms) {
  FwdLaunch launch{};
  if (geometry.q.batch == 0 || geometry.hq == 0 || geometry.q.rows == 0) return launch;
  const i64 offset = narrow(offset_of(geometry) + bounded(geometry.right));
  const Schedule schedule =
      make_schedule(config, geometry.b, geometry.hq, geometry.sq, geometry.sk, offset, sms);
  launch.params = make_params(geometry, schedule);
  launch.grid = std::max(schedule.grid, 1);  // packed rows that no sequence owns are cleared
  launch.tiles = static_cast<int>(config.maximum == Maximum::kOptimistic
                                      ? std::min<i64>(schedule.tiles, i64{kRedoTiles} * launch.grid)
                                      : schedule.tiles);
  launch.has_keys = geometry.k.rows > 0 && geometry.k.batch > 0;
  launch.kernel = kernel;
  launch.threads = threads(config);
  launch.shared = shared_bytes(config);
  make_maps(config, geometry, &launch);
  return launch;
}

core::Status load_forward(const FwdLaunch& launch) {
  if (launch.grid == 0) return {};
  return load_kernel(launch.kernel, launch.shared, "loading the forward kernel");
}

core::Status launch_forward(const FwdLaunch& launch, const FwdAddresses& at, void* stream) {
  if (launch.grid == 0) return {};
  FwdParams params = launch.params;
  set_addresses(at, &params);
  VOLLEY_TRY(map_at(launch.q, at.q, &params.q));
  VOLLEY_TRY(map_at(launch.k, launch.has_keys ? at.k : at.q, &params.k));
  VOLLEY_TRY(map_at(launch.v, launch.has_keys ? at.v : at.q, &params.v));
  cudaError_t error = enqueue(launch, params, stream);
  if (error == cudaErrorInvalidValue) {
    // A cudaDeviceReset since the plan was made took the kernel's shared memory limit with it.
    cudaGetLastError();
    VOLLEY_TRY(load_forward(launch));
    error = enqueue(launch, params, stream);
  }
  return device_error(error, "launching the forward kernel");
}

}  // namespace volley::cuda
