// SPDX-License-Identifier: BSD-3-Clause
//
// The sm90 backend's plan: may this problem run on the Hopper kernels, and on which row of their
// table? Pure, and the same in a build without CUDA, so that a plan can be made for a GPU that is
// not here. What it cannot take it names, with the value found. Running: sm90_run.cpp.
#include <array>
#include <limits>
#include <numbers>

#include "backend.h"
#include "cuda/config.h"
#include "cuda/schedule.h"
#if VOLLEY_WITH_CUDA
#  include "cuda/sm90_run.h"
#endif

namespace volley::cuda {
namespace {

using core::Plan;
using core::Problem;
using core::Role;
using core::Status;
using core::Tensor;

// What TMA asks of an operand, and the epilogue of o: all strides and the base in 16-byte steps.
Status check_operand(const Problem& problem, Role role) {
  constexpr std::array<const char*, 3> kAxes = {"batch", "row", "head"};
  constexpr int64_t kStep = 16;                     // bytes
  constexpr int64_t kMaxStride = int64_t{1} << 40;  // bytes, exclusive
  const Tensor& tensor = problem[role];
  const char* name = core::info(role).name;
  for (size_t axis = 0; axis < kAxes.size(); ++axis) {
    const int64_t bytes = tensor.stride[axis] * 2;
    if (bytes < 0 || bytes >= kMaxStride) {
      return core::not_offered(VOLLEY_REASON_STRIDE,
                               "sm90: {} stride of {} is {} bytes, TMA needs 0 to 2^40 - 1",
                               kAxes[axis], name, bytes);
    }
    if (bytes % kStep != 0) {
      return core::not_offered(VOLLEY_REASON_STRIDE,
                               "sm90: {} stride of {} is {} bytes, TMA needs a multiple of {}",
                               kAxes[axis], name, bytes, kStep);
    }
  }
  if (tensor.alignment < kStep) {
    return core::not_offered(VOLLEY_REASON_ALIGNMENT,
                             "sm90: {} is aligned to {} bytes, TMA needs {}", name,
                             tensor.alignment, kStep);
  }
  return {};
}

Status check_numbers(const Problem& problem) {
  const double scale_log2 = problem.scale * std::numbers::log2e;
  if (!(scale_log2 >= std::numeric_limits<float>::min() &&
        scale_log2 <= std::numeric_limits<float>::max())) {
    return core::not_offered(VOLLEY_REASON_SCALE,
                             "sm90: scale is {}, which times log2(e) is no normal float",
                             problem.scale);
  }
  if (problem.max_sq > kMaxRows || problem.max_sk > kMaxRows) {
    return core::not_offered(VOLLEY_REASON_SIZE,
                             "sm90: sq is {} and sk is {}, the kernel counts up to {}",
                             problem.max_sq, problem.max_sk, kMaxRows);
  }
  return {};
}

void describe(const FwdConfig& config, const Schedule& schedule, core::Config* out) {
  const bool causal = config.mask == MaskKind::kCausal;
  out->name = fmt::format("bf16 d{} {} {}x{}, {} stages", config.d, causal ? "causal" : "full",
                          config.block_m, config.block_n, config.stages);
  out->block_m = config.block_m;
  out->block_n = config.block_n;
  out->stages = config.stages;
  out->smem = shared_bytes(config);
  out->grid = schedule.grid;
  out->threads = threads(config);
}

Status plan_forward(Plan* plan) {
  const Problem& problem = plan->problem;
  if (plan->device.arch != 90) {
    return core::not_offered(VOLLEY_REASON_ARCH,
                             "sm90: {} has compute capability {}.{}, the kernels need 9.0",
                             plan->device.product, plan->device.arch / 10, plan->device.arch % 10);
  }
  if (problem.d != problem.dv || (problem.d != 64 && problem.d != 128)) {
    return core::not_offered(VOLLEY_REASON_HEAD_DIM,
                             "sm90: head dims are {} and {}, the kernels are for 64 and 128",
                             problem.d, problem.dv);
  }
  for (const Role role : {Role::kQ, Role::kK, Role::kV, Role::kO}) {
    VOLLEY_TRY(check_operand(problem, role));
  }
  VOLLEY_TRY(check_numbers(problem));

  const MaskKind mask = problem.band.open() ? MaskKind::kFull : MaskKind::kCausal;
  const int row = choose(Element::kBf16, static_cast<int>(problem.d), static_cast<int>(problem.dv),
                         mask, static_cast<int>(plan->device.smem_per_block));
  if (row < 0) {
    return core::not_offered(VOLLEY_REASON_SHARED_MEMORY,
                             "sm90: {} grants a block {} bytes of shared memory, no config fits",
                             plan->device.product, plan->device.smem_per_block);
  }
  const FwdConfig& config = kFwdConfigs[row];
  const int sms = usable_sms(problem.max_sms, plan->device.sms);
  const Schedule schedule =
      make_schedule(config, problem.b, problem.hq, problem.max_sq, problem.max_sk, sms);
  if (problem.b * problem.hq > 0 && schedule.q_tiles > kMaxTiles / (problem.b * problem.hq)) {
    return core::not_offered(VOLLEY_REASON_SIZE,
                             "sm90: b * hq is {} and sq is {}: more than {} tiles of {} queries",
                             problem.b * problem.hq, problem.max_sq, kMaxTiles, config.block_m);
  }
  plan->config.row = row;
  describe(config, schedule, &plan->config);
  return {};
}

}  // namespace
}  // namespace volley::cuda

namespace volley::core {

Backend sm90_backend() {
  Backend backend{
      VOLLEY_BACKEND_SM90, VOLLEY_DEVICE_CUDA, false, cuda::plan_forward, nullptr, nullptr};
#if VOLLEY_WITH_CUDA
  backend.built = true;
  backend.prepare = cuda::sm90_prepare;
  backend.run = cuda::sm90_run;
#endif
  return backend;
}

}  // namespace volley::core
