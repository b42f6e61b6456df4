// SPDX-License-Identifier: BSD-3-Clause
//
// The CPU backend: tiled attention with an online softmax on all cores, the default where there is
// no GPU. A plan chooses the kernel and the threads; a run hands out tiles. Every tile is computed
// by one thread with scratch memory of a fixed size, so results do not depend on the number of
// threads and memory does not grow with sq * sk. Read work.h next, then kernel/attend.inc.h.
#include <algorithm>
#include <cmath>

#include "backend.h"
#include "cpu/backward.h"
#include "cpu/contents.h"
#include "cpu/kernel/choose.h"
#include "cpu/output.h"
#include "cpu/scratch.h"
#include "cpu/thread_pool.h"
#include "cpu/work.h"

namespace volley::core {
namespace {

// Where a thread's scratch memory has what; at most 1.7 MiB, at head dims of 1024.
struct ScratchLayout {
  int64_t k_stride;
  int64_t v_stride;
  int64_t q, k, v, p, o;  // offsets
  int64_t size;           // all in floats

  explicit ScratchLayout(const Problem& problem)
      : k_stride(padded(problem.d)),
        v_stride(padded(problem.dv)),
        q(0),
        k(q + problem.d * kTileRows),
        v(k + kTileKeys * k_stride),
        p(v + kTileKeys * v_stride),
        o(p + kTileKeys * kTileRows),
        size(o + kTileRows * v_stride) {}

  void place(float* memory, Tile* tile) const {
    tile->q_packed = memory + q;
    tile->k_packed = memory + k;
    tile->v_packed = memory + v;
    tile->p = memory + p;
    tile->o = memory + o;
    tile->k_stride = k_stride;
    tile->v_stride = v_stride;
  }
};

bool fits_fp32(double x) { return std::isfinite(static_cast<float>(x)); }

Status plan_cpu(Plan* plan) {
  const Problem& problem = plan->problem;
  if (!fits_fp32(problem.scale)) {
    return not_offered(VOLLEY_REASON_SCALE, "scale is {}; cpu takes what fits fp32", problem.scale);
  }
  if (!fits_fp32(problem.softcap) ||
      (problem.softcap > 0 && static_cast<float>(problem.softcap) == 0)) {
    return not_offered(VOLLEY_REASON_SOFTCAP, "softcap is {}; cpu takes what fits fp32",
                       problem.softcap);
  }
  for (const Role role :
       {Role::kSink, Role::kBias, Role::kO, Role::kLse, Role::kDout, Role::kDlse}) {
    if (problem.has(role) && problem[role].dtype == VOLLEY_F64) {
      return not_offered(VOLLEY_REASON_DTYPE, "{} is fp64; cpu takes fp32, fp16 and bf16",
                         info(role).name);
    }
  }
  Config& config = plan->config;
  VOLLEY_TRY(choose_kernel(&config.row));
  VOLLEY_TRY(resolve_threads(problem.num_threads, &config.threads));
  const Kernel& kernel = *kernels()[static_cast<size_t>(config.row)];
  config.name =
      fmt::format("fp32 {} {}x{}, {}", problem.op == VOLLEY_OP_BACKWARD ? "gradients" : "tiles",
                  kTileRows, kTileKeys, kernel.name);
  config.block_m = kTileRows;
  config.block_n = kTileKeys;
  const int64_t rows = problem.max_sq * problem.group();
  config.grid = problem.b * problem.hk * ((rows + kTileRows - 1) / kTileRows);
  return {};
}

Status prepare_cpu(Plan*) { return {}; }

Status run_cpu(const Plan& plan, const Buffers& buffers, Workspace, void*) {
  const Problem& problem = plan.problem;
  VOLLEY_TRY(check_contents(problem, buffers));
  if (problem.writes_nothing()) return {};
  if (problem.op == VOLLEY_OP_BACKWARD) return cpu_backward(plan, buffers);
  const Kernel& kernel = *kernels()[static_cast<size_t>(plan.config.row)];
  const Work work(problem, buffers);
  const auto threads =
      static_cast<int>(std::min<int64_t>(plan.config.threads, std::max<int64_t>(work.tiles(), 1)));

  const ScratchLayout layout(problem);
  Scratch scratch;
  VOLLEY_TRY(scratch.allocate(threads * layout.size));
  parallel_for(work.tiles(), threads, [&](int64_t index, int worker) {
    const TilePlace place = work.place(index);
    Tile tile;
    layout.place(scratch.at(worker * layout.size), &tile);
    work.fill(place, &tile);
    kernel.attend(&tile);
    write_tile(problem, buffers, work, place, tile);
  });
  return {};
}

}  // namespace

Backend cpu_backend() {
  return {VOLLEY_BACKEND_CPU, VOLLEY_DEVICE_CPU, true, plan_cpu, prepare_cpu, run_cpu};
}

}  // namespace volley::core
