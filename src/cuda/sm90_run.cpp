// SPDX-License-Identifier: BSD-3-Clause
//
// Running sm90 plans. What does not depend on addresses is computed when the plan is made; a run
// checks that buffers lie on the plan's device, makes that current, and launches.
#include "cuda/sm90_run.h"

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "cuda/check_lengths.h"
#include "cuda/config_table.h"
#include "cuda/current_device.h"
#include "cuda/kernels.h"
#include "cuda/launch.h"
#include "cuda/place.h"
#include "cuda/schedule.h"

namespace volley::cuda {
namespace {

using core::Role;

const void* kernel_of(int row) {
#if VOLLEY_EXPERIMENTS
  if (row >= kProductRows) return experimental_kernel(row);
#endif
  const FwdConfig config = fwd_config(row);
  const auto is = [&](int d, int dv) { return config.d == d && config.dv == dv; };
  if (is(64, 64)) return fwd_kernel<64, 64>(row);
  if (is(96, 96)) return fwd_kernel<96, 96>(row);
  if (is(128, 128)) return fwd_kernel<128, 128>(row);
  if (is(192, 128)) return fwd_kernel<192, 128>(row);
  if (is(192, 192)) return fwd_kernel<192, 192>(row);
  if (is(256, 256)) return fwd_kernel<256, 256>(row);
  return nullptr;
}

SinkType sink_type(const core::Problem& problem) {
  if (!problem.has(Role::kSink)) return kNoSink;
  switch (problem[Role::kSink].dtype) {
    case VOLLEY_F16: return kSinkF16;
    case VOLLEY_BF16: return kSinkBf16;
    default: return kSinkF32;
  }
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
  geometry.q = {problem[Role::kQ].shape[0], problem[Role::kQ].shape[1]};
  geometry.k = {problem[Role::kK].shape[0], problem[Role::kK].shape[1]};
  geometry.b = problem.b;
  geometry.sq = problem.max_sq;
  geometry.sk = problem.max_sk;
  geometry.hq = problem.hq;
  geometry.hk = problem.hk;
  geometry.d = problem.d;
  geometry.dv = problem.dv;
  geometry.left = problem.band.left;
  geometry.right = problem.band.right;
  geometry.offset = problem.band.offset(problem.max_sq, problem.max_sk);
  geometry.relative = problem.band.alignment == VOLLEY_ALIGN_BOTTOM_RIGHT;
  geometry.scale = problem.scale;
  geometry.softcap = problem.softcap;
  geometry.o_is_f32 = problem[Role::kO].dtype == VOLLEY_F32;
  geometry.sink = sink_type(problem);
  geometry.sink_stride = problem[Role::kSink].stride[0];
  return geometry;
}

}  // namespace

core::Status sm90_prepare(core::Plan* plan) {
  const CurrentDevice device(plan->device.id);
  VOLLEY_TRY(device.status());
  cudaFree(nullptr);  // the runtime makes its context, in which tensor maps are encoded
  auto launch = std::make_shared<FwdLaunch>(make_forward(
      fwd_config(plan->config.row), kernel_of(plan->config.row), geometry_of(plan->problem),
      usable_sms(plan->problem.max_sms, plan->device.sms)));
  launch->checks = checks_lengths();
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
  if (launch.checks) VOLLEY_TRY(check_lengths(plan.problem, buffers, stream));
  FwdAddresses at{};
  at.q = buffers[Role::kQ];
  at.k = buffers[Role::kK];
  at.v = buffers[Role::kV];
  at.o = buffers[Role::kO];
  at.lse = buffers.as<float>(Role::kLse);
  at.sink = buffers[Role::kSink];
  at.cu_q = buffers.as<const int>(Role::kCuSeqlensQ);
  at.cu_k = buffers.as<const int>(Role::kCuSeqlensK);
  at.used_q = buffers.as<const int>(Role::kSequsedQ);
  at.used_k = buffers.as<const int>(Role::kSequsedK);
  return launch_forward(launch, at, stream);
}

}  // namespace volley::cuda
