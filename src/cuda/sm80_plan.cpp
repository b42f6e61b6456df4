// SPDX-License-Identifier: BSD-3-Clause
//
// Pure, and the same in a build without CUDA, so that a plan can be made for a GPU that is not
// here.
#include "cuda/sm80_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "cuda/schedule.h"
#include "cuda/sm80/config.h"
#include "cuda/sm80_launch.h"
#include "offers.h"

namespace volley::cuda {
namespace {

using core::Plan;
using core::Problem;
using core::Role;
using core::Status;

// Does anything but a band stand between q.k and the softmax, or between it and P?
bool has_extras(const Problem& problem) {
  return problem.softcap > 0 || problem.dropout_p > 0 || problem.has(Role::kBias) ||
         problem.has(Role::kAlibiSlopes) || problem.has(Role::kMask) ||
         problem.scale * std::numbers::log2e < std::numeric_limits<float>::min();
}

Status check_numbers(const Problem& problem) {
  const double factor = std::abs(problem.scale) * std::numbers::log2e;
  const double cap = problem.softcap * std::numbers::log2e;
  constexpr double kMost = std::numeric_limits<float>::max();
  if (factor > kMost) {
    return core::not_offered(VOLLEY_REASON_SCALE,
                             "sm80: scale is {}, which times log2(e) is no finite float",
                             problem.scale);
  }
  if (problem.softcap > 0 && !(cap >= std::numeric_limits<float>::min() && cap <= kMost &&
                               factor / problem.softcap <= 1e30)) {
    return core::not_offered(VOLLEY_REASON_SOFTCAP,
                             "sm80: softcap is {} at a scale of {}, too far apart for floats",
                             problem.softcap, problem.scale);
  }
  return {};
}

Status check_dtypes(const Problem& problem) {
  for (const Role role : {Role::kSink, Role::kBias, Role::kLse, Role::kDlse}) {
    if (problem.has(role) && problem[role].dtype == VOLLEY_F64) {
      return core::not_offered(VOLLEY_REASON_DTYPE,
                               "sm80: {} is fp64, the kernels take nothing wider than fp32",
                               core::info(role).name);
    }
  }
  return {};
}

Status check_dbias(const Problem& problem) {
  const bool deterministic = problem.deterministic;
  if (!v2::sums_dbias_over_queries(problem)) return {};
  if (!deterministic && !problem.batch_invariant) return {};
  return core::not_offered(
      deterministic ? VOLLEY_REASON_DETERMINISTIC : VOLLEY_REASON_BATCH_INVARIANT,
      "sm80: dbias is summed over {} queries in no fixed order, {} is not offered with it",
      problem.max_sq, deterministic ? "deterministic" : "batch_invariant");
}

// The kernels count rows and tiles in 32 bits.
Status check_size(const Problem& problem, Role tiled, int block) {
  for (const Role role : {Role::kQ, Role::kK}) {
    const i64 rows =
        std::max(problem[role].shape[1], role == Role::kQ ? problem.max_sq : problem.max_sk);
    if (rows > kMaxRows) {
      return core::not_offered(VOLLEY_REASON_SIZE,
                               "sm80: {} has {} rows, the kernel counts up to {}",
                               core::info(role).name, rows, kMaxRows);
    }
  }
  const i64 length = tiled == Role::kQ ? problem.max_sq : problem.max_sk;
  const i64 tiles = (length + block - 1) / block;
  const i64 heads = std::max<i64>(tiled == Role::kQ ? problem.hq : problem.hk, 1);
  if (tiles > 0 && problem.b > kMaxTiles / heads / tiles) {
    return core::not_offered(VOLLEY_REASON_SIZE,
                             "sm80: b is {}, {} has {} heads and {} rows: more than {} tiles of {}",
                             problem.b, core::info(tiled).name, heads, length, kMaxTiles, block);
  }
  return {};
}

// Launch is one of sm80_launch.h; `smem` is of its main kernel.
template <class Launch>
void describe(const v2::Config& config, int smem, const Launch& launch, Plan* plan) {
  std::string packed;
  for (const v2::Packing& packing : launch.operands.packings()) {
    packed +=
        fmt::format("{}{}", packed.empty() ? ", copies " : " ", core::info(packing.role).name);
  }
  core::Config& out = plan->config;
  out.name =
      fmt::format("{} d{}{} {}x{}{}", config.element == Element::kBf16 ? "bf16" : "fp16", config.d,
                  config.extras ? " extras" : "", config.block_m, config.block_n, packed);
  out.block_m = config.block_m;
  out.block_n = config.block_n;
  out.stages = 1;
  out.smem = smem;
  out.grid = launch.grid.blocks;
  out.threads = threads(config);
  plan->workspace = launch.workspace;
}

Status no_config_fits(const Plan& plan) {
  return core::not_offered(VOLLEY_REASON_SHARED_MEMORY,
                           "sm80: {} grants a block {} bytes of shared memory, no config fits",
                           plan.device.product, plan.device.smem_per_block);
}

Status plan_forward(Element element, int d, Plan* plan) {
  const int row = v2::choose_forward(element, d, has_extras(plan->problem),
                                     static_cast<int>(plan->device.smem_per_block));
  if (row < 0) return no_config_fits(*plan);
  const v2::Config config = v2::forward_config(row);
  VOLLEY_TRY(check_size(plan->problem, Role::kQ, config.block_m));
  plan->config.row = row;
  describe(config, shared_bytes(config), v2::make_forward(*plan), plan);
  return {};
}

Status plan_backward(Element element, int d, Plan* plan) {
  VOLLEY_TRY(check_dbias(plan->problem));
  const int row = v2::choose_backward(element, d, has_extras(plan->problem),
                                      static_cast<int>(plan->device.smem_per_block));
  if (row < 0) return no_config_fits(*plan);
  const v2::Config config = v2::backward_config(row);
  VOLLEY_TRY(check_size(plan->problem, Role::kK, config.block_n));
  const bool by_queries = v2::takes_query_tiles(plan->problem);
  int rows = config.block_m;  // of a tile of queries
  if (by_queries) {
    const v2::Config queries = v2::query_config(v2::query_row(config));
    if (query_shared_bytes(queries) > plan->device.smem_per_block) return no_config_fits(*plan);
    rows = std::min(rows, queries.block_m);
  }
  VOLLEY_TRY(check_size(plan->problem, Role::kQ, rows));
  plan->config.row = row;
  describe(config, backward_shared_bytes(config), v2::make_backward(*plan), plan);
  if (by_queries) plan->config.name += ", dq by queries";
  return {};
}

}  // namespace

Status sm80_plan(Plan* plan) {
  const Problem& problem = plan->problem;
  if (plan->device.arch < 80) {
    return core::not_offered(VOLLEY_REASON_ARCH,
                             "sm80: {} has compute capability {}.{}, the kernels need 8.0 or newer",
                             plan->device.product, plan->device.arch / 10, plan->device.arch % 10);
  }
  VOLLEY_TRY(check_numbers(problem));
  VOLLEY_TRY(check_dtypes(problem));
  const Element element = problem[Role::kQ].dtype == VOLLEY_BF16 ? Element::kBf16 : Element::kF16;
  const int d = static_cast<int>(std::max(problem.d, problem.dv));
  return problem.op == VOLLEY_OP_BACKWARD ? plan_backward(element, d, plan)
                                          : plan_forward(element, d, plan);
}

}  // namespace volley::cuda
