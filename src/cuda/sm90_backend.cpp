// SPDX-License-Identifier: BSD-3-Clause
//
// The sm90 backend's plan: may this problem run on the Hopper kernels, and on which row of their
// table? Pure, and the same in a build without CUDA, so that a plan can be made for a GPU that is
// not here. What it cannot take it names, with the value found. Running: sm90_run.cpp.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <numbers>

#include "backend.h"
#include "cuda/config_table.h"
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
    const int64_t bytes = tensor.stride[axis] * (tensor.dtype == VOLLEY_F32 ? 4 : 2);
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

Status check_sink(const Problem& problem) {
  if (!problem.has(Role::kSink) || problem[Role::kSink].dtype != VOLLEY_F64) return {};
  return core::not_offered(VOLLEY_REASON_DTYPE,
                           "sm90: sink is fp64, the kernels take fp32, fp16 and bf16");
}

// Tiles of one head of all sequences, at most. Packed ones share the rows that there are, and each
// may end in a tile that is not full.
i64 tiles_of_head(const Problem& problem, int block_m) {
  const i64 longest = (problem.max_sq + block_m - 1) / block_m;
  const i64 each =
      longest > kMaxTiles / std::max<i64>(problem.b, 1) ? kMaxTiles + 1 : longest * problem.b;
  return problem.packed_q ? std::min<i64>(each, problem[Role::kQ].shape[1] / block_m + problem.b)
                          : each;
}

Status check_numbers(const Problem& problem) {
  const double scale_log2 = problem.scale * std::numbers::log2e;
  if (!(scale_log2 >= std::numeric_limits<float>::min() &&
        scale_log2 <= std::numeric_limits<float>::max())) {
    return core::not_offered(VOLLEY_REASON_SCALE,
                             "sm90: scale is {}, which times log2(e) is no normal float",
                             problem.scale);
  }
  const double cap_log2 = problem.softcap * std::numbers::log2e;
  const double slope = problem.scale / problem.softcap;
  if (problem.softcap > 0 && !(cap_log2 >= std::numeric_limits<float>::min() &&
                               cap_log2 <= std::numeric_limits<float>::max() &&
                               slope >= std::numeric_limits<float>::min() && slope <= 1e30)) {
    return core::not_offered(VOLLEY_REASON_SOFTCAP,
                             "sm90: softcap is {} at a scale of {}, too far apart for floats",
                             problem.softcap, problem.scale);
  }
  for (const Role role : {Role::kQ, Role::kK}) {
    const i64 rows =
        std::max(problem[role].shape[1], role == Role::kQ ? problem.max_sq : problem.max_sk);
    if (rows > kMaxRows) {
      return core::not_offered(VOLLEY_REASON_SIZE,
                               "sm90: {} has {} rows, the kernel counts up to {}",
                               core::info(role).name, rows, kMaxRows);
    }
  }
  return {};
}

const char* mask_name(MaskKind mask) {
  switch (mask) {
    case MaskKind::kFull: return "full";
    case MaskKind::kCausal: return "causal";
    default: return "general";
  }
}

void describe(const FwdConfig& config, const Schedule& schedule, core::Config* out) {
  const std::string dims = config.d == config.dv ? fmt::format("{}", config.d)
                                                 : fmt::format("{}/{}", config.d, config.dv);
  out->name =
      fmt::format("{} d{} {} {}x{}, {} stages", config.element == Element::kBf16 ? "bf16" : "fp16",
                  dims, mask_name(config.mask), config.block_m, config.block_n, config.stages);
  out->block_m = config.block_m;
  out->block_n = config.block_n;
  out->stages = config.stages;
  out->smem = shared_bytes(config);
  out->grid = schedule.grid;
  out->threads = threads(config);
}

// The kernels for a full and a causal mask know only sequences of one length.
MaskKind kind_of(const Problem& problem) {
  const bool one_length = !problem.packed_q && !problem.packed_k && !problem.has(Role::kSequsedQ) &&
                          !problem.has(Role::kSequsedK) && problem.max_sk > 0;
  if (!one_length || problem.softcap > 0 || problem[Role::kO].dtype == VOLLEY_F32) {
    return MaskKind::kGeneral;
  }
  // A side of the band that hides no key is as good as open.
  const int64_t offset = problem.band.offset(problem.max_sq, problem.max_sk);
  const int64_t last_row = problem.max_sq - 1, last_key = problem.max_sk - 1;
  if (problem.band.left >= 0 && problem.band.left < last_row + offset) return MaskKind::kGeneral;
  const bool hides_right = problem.band.right >= 0 && problem.band.right < last_key - offset;
  return hides_right ? MaskKind::kCausal : MaskKind::kFull;
}

Status check_head_dims(const Problem& problem) {
  constexpr int64_t kStep = 8;  // 16 bytes
  if (problem.d % kStep != 0 || problem.dv % kStep != 0) {
    return core::not_offered(VOLLEY_REASON_HEAD_DIM,
                             "sm90: head dims are {} and {}, the kernels take multiples of {}",
                             problem.d, problem.dv, kStep);
  }
  return {};
}

// VOLLEY_FWD_ROW=n runs row n of the table where it is one for the problem, so that tests and
// measurements reach rows that plans prefer others to; +n counts from the first experiment. -1:
// unset.
int forced_row() {
  const char* text = std::getenv("VOLLEY_FWD_ROW");
  if (text == nullptr) return -1;
  const int row =
      static_cast<int>(std::strtol(text, nullptr, 10)) + (*text == '+' ? kProductRows : 0);
  return row >= 0 && row < kFwdRows ? row : -1;
}

// The row of the table for a problem, on a device that grants so many bytes of shared memory. Where
// the kernels of its own mask are too large, the general one, which has smaller rows, computes it.
int row_for(const Problem& problem, int shared_budget) {
  const Element element = problem[Role::kQ].dtype == VOLLEY_BF16 ? Element::kBf16 : Element::kF16;
  const HeadDims dims = padded_head_dims(static_cast<int>(problem.d), static_cast<int>(problem.dv));
  const MaskKind kind = kind_of(problem);
  const int row = choose(element, dims, kind, problem.max_sk, shared_budget);
  if (const int forced = forced_row(); forced >= 0) {
    const FwdConfig config = fwd_config(forced);
    const bool fits = config.element == element && config.d == dims.d && config.dv == dims.dv;
    if (fits && config.mask == kind) return forced;
  }
  if (row >= 0) return row;
  return choose(element, dims, MaskKind::kGeneral, problem.max_sk, shared_budget);
}

Status plan_forward(Plan* plan) {
  const Problem& problem = plan->problem;
  if (plan->device.arch != 90) {
    return core::not_offered(VOLLEY_REASON_ARCH,
                             "sm90: {} has compute capability {}.{}, the kernels need 9.0",
                             plan->device.product, plan->device.arch / 10, plan->device.arch % 10);
  }
  VOLLEY_TRY(check_head_dims(problem));
  for (const Role role : {Role::kQ, Role::kK, Role::kV, Role::kO}) {
    VOLLEY_TRY(check_operand(problem, role));
  }
  VOLLEY_TRY(check_numbers(problem));
  VOLLEY_TRY(check_sink(problem));

  const int row = row_for(problem, static_cast<int>(plan->device.smem_per_block));
  if (row < 0) {
    return core::not_offered(VOLLEY_REASON_SHARED_MEMORY,
                             "sm90: {} grants a block {} bytes of shared memory, no config fits",
                             plan->device.product, plan->device.smem_per_block);
  }
  const FwdConfig config = fwd_config(row);
  if (tiles_of_head(problem, config.block_m) > kMaxTiles / std::max<i64>(problem.hq, 1)) {
    return core::not_offered(VOLLEY_REASON_SIZE,
                             "sm90: b * hq is {} and sq is {}: more than {} tiles of {} queries",
                             problem.b * problem.hq, problem.max_sq, kMaxTiles, config.block_m);
  }
  const int sms = usable_sms(problem.max_sms, plan->device.sms);
  plan->config.row = row;
  describe(config,
           make_schedule(config, problem.b, problem.hq, problem.max_sq, problem.max_sk,
                         problem.band.offset(problem.max_sq, problem.max_sk), sms),
           &plan->config);
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
