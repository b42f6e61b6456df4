// SPDX-License-Identifier: BSD-3-Clause
//
// The backward's launches: delta of each row, the main kernel, which leaves dq as fp32 sums in the
// workspace, and those sums to dq. Or dq, and dbias, by a kernel of their own, and dsink
// (sm80_query_gradients.cpp).
#include <algorithm>
#include <bit>

#include "cuda/sm80/config.h"
#include "cuda/sm80_launch.h"

namespace volley::cuda::v2 {
namespace {

using core::Problem;
using core::Role;
using core::Tensor;

// Tiles of dq's sums, of a batch and head: sum_tile().
i64 sum_tiles(const Problem& problem, const Config& config) {
  const i64 rows = problem[Role::kQ].shape[1];
  return problem.has(Role::kCuSeqlensQ) ? rows / config.block_m + problem.b
                                        : (rows + config.block_m - 1) / config.block_m;
}

// So many key heads that q, dO and the sums of dq of their query heads fill a third of a large L2.
int section_of(const Problem& problem, const Config& config) {
  constexpr i64 kBytes = 16 << 20;
  const i64 bytes =
      8 * std::max<i64>(problem.group(), 1) * std::max<i64>(problem.max_sq, 1) * config.d;
  const auto heads = static_cast<uint64_t>(std::max<i64>(kBytes / bytes, 1));
  return static_cast<int>(std::min<i64>(static_cast<i64>(std::bit_floor(heads)),
                                        std::max<i64>(problem.b * problem.hk, 1)));
}

BackwardParams make_params(const Problem& problem, const Config& config) {
  BackwardParams p{};
  p.lse_stride = heads_first(problem[Role::kLse]);
  p.dk = output_of(problem[Role::kDk]);
  p.dv_out = output_of(problem[Role::kDv]);
  p.extras = extras_of(problem);
  p.scale_log2 = config.extras ? 1.f : p.extras.score_scale;
  p.scale = static_cast<float>(problem.scale);
  p.keep_scale = static_cast<float>(1 / (1 - problem.dropout_p));
  p.sq = static_cast<int>(problem.max_sq);
  p.sk = static_cast<int>(problem.max_sk);
  p.d = rounded_up(problem.d);
  p.dv = rounded_up(problem.dv);
  p.k_columns = static_cast<int>(problem.d);
  p.v_columns = static_cast<int>(problem.dv);
  p.heads = static_cast<int>(problem.hq);
  p.key_heads = static_cast<int>(problem.hk);
  p.group = static_cast<int>(problem.group());
  p.key_blocks = static_cast<int>((problem.max_sk + config.block_n - 1) / config.block_n);
  p.blocks = static_cast<int>(problem.b * problem.hk * p.key_blocks);
  p.section = section_of(problem, config);
  p.accumulate = problem.accumulate_grads ? 1 : 0;
  p.query_rows = problem[Role::kQ].shape[1];
  p.sum_tiles = sum_tiles(problem, config);
  p.lengths = lengths_of(problem);
  return p;
}

DeltaParams make_delta(const Problem& problem) {
  const Tensor& q = problem[Role::kQ];
  DeltaParams p{};
  p.o = output_of(problem[Role::kO]);
  p.dout = output_of(problem[Role::kDout]);
  p.dlse_stride = heads_first(problem[Role::kDlse]);
  p.heads = static_cast<int>(problem.hq);
  p.columns = static_cast<int>(problem.dv);
  p.query_rows = q.shape[1];
  p.tiles = q.shape[0] * problem.hq * ((q.shape[1] + kDeltaRows - 1) / kDeltaRows);
  return p;
}

DqParams make_dq(const Problem& problem, const Config& config) {
  DqParams p{};
  p.dq = output_of(problem[Role::kDq]);
  p.scale = static_cast<float>(problem.scale);
  p.sq = static_cast<int>(problem.max_sq);
  p.sk = static_cast<int>(problem.max_sk);
  p.heads = static_cast<int>(problem.hq);
  p.columns = static_cast<int>(problem.d);
  p.accumulate = problem.accumulate_grads ? 1 : 0;
  p.block_m = config.block_m;
  p.d = config.d;
  p.piece = query_piece(config);
  p.q_tiles = static_cast<int>((problem.max_sq + config.block_m - 1) / config.block_m);
  p.tiles = problem.b * problem.hq * p.q_tiles;
  p.sum_tiles = sum_tiles(problem, config);
  p.lengths = lengths_of(problem);
  return p;
}

}  // namespace

BackwardLaunch make_backward(const core::Plan& plan) {
  const Problem& problem = plan.problem;
  const Config config = backward_config(plan.config.row);
  BackwardLaunch launch;
  Layout layout;
  launch.dbias = make_dbias(problem, &layout);
  launch.dsink = make_dsink(problem);
  launch.workspace = layout.size();
  launch.row = plan.config.row;
  launch.element = config.element;
  launch.params = make_params(problem, config);
  if (!problem[Role::kQ].empty()) {
    launch.delta = make_delta(problem);
    launch.delta_grid = {bounded_blocks(launch.delta.tiles, 65536, problem.max_sms), 2 * kDeltaRows,
                         delta_shared_bytes(launch.delta.o.type == kF32)};
    const i64 heads = problem[Role::kQ].shape[0] * problem.hq;  // of all batches
    launch.delta_offset = layout.take(4 * static_cast<uint64_t>(heads * launch.params.query_rows));
    if (!takes_query_tiles(problem)) {
      launch.dq = make_dq(problem, config);
      // At least one: rows that no query in use owns are cleared.
      launch.dq_grid = {std::max(1, bounded_blocks(launch.dq.tiles, 65536, problem.max_sms)), 256,
                        0};
      launch.dq_bytes = 4 * static_cast<uint64_t>(heads * launch.dq.sum_tiles) *
                        static_cast<uint64_t>(config.block_m * config.d);
      launch.dq_offset = layout.take(launch.dq_bytes);
    }
  }
  if (!problem[Role::kK].empty()) {
    launch.params.q = launch.operands.add(problem, Role::kQ, &layout);
    launch.params.k = launch.operands.add(problem, Role::kK, &layout);
    launch.params.v = launch.operands.add(problem, Role::kV, &layout);
    launch.params.dout = launch.operands.add(problem, Role::kDout, &layout);
    const int blocks = launch.params.blocks;
    launch.grid = {std::max(1, bounded_blocks(blocks, blocks, problem.max_sms)), threads(config),
                   backward_shared_bytes(config)};
  }
  if (takes_query_tiles(problem)) {
    launch.queries = make_query_gradients(problem, config, launch.params, launch.dbias);
  }
  launch.workspace = layout.size();
  return launch;
}

core::Status enqueue_backward(const BackwardLaunch& launch, const core::Buffers& buffers,
                              core::Workspace workspace, Queue& queue) {
  char* const own = static_cast<char*>(workspace.data);
  auto* const delta = reinterpret_cast<float*>(own + launch.delta_offset);
  auto* const sums = reinterpret_cast<float*>(own + launch.dq_offset);
  core::Buffers at = buffers;
  VOLLEY_TRY(enqueue_dbias_start(launch.dbias, at, workspace, queue));
  if (launch.delta_grid.blocks > 0) {
    DeltaParams p = launch.delta;
    p.o.data = buffers[Role::kO];
    p.dout.data = buffers[Role::kDout];
    p.dlse = buffers.as<const float>(Role::kDlse);
    p.delta = delta;
    VOLLEY_TRY(queue.delta(launch.element, launch.delta_grid, p));
  }
  if (launch.dq_bytes > 0) VOLLEY_TRY(queue.zero(sums, launch.dq_bytes));
  if (launch.grid.blocks > 0) {
    VOLLEY_TRY(launch.operands.pack(&at, workspace, queue));
    BackwardParams p = launch.params;
    p.q.data = at.as<const Bits16>(Role::kQ);
    p.k.data = at.as<const Bits16>(Role::kK);
    p.v.data = at.as<const Bits16>(Role::kV);
    p.dout.data = at.as<const Bits16>(Role::kDout);
    p.lse = at.as<const float>(Role::kLse);
    p.delta = delta;
    p.dq = launch.dq_bytes > 0 ? sums : nullptr;
    p.dk.data = at[Role::kDk];
    p.dv_out.data = at[Role::kDv];
    set_addresses(at, &p.lengths);
    set_addresses(at, &p.extras);
    VOLLEY_TRY(queue.backward(launch.row, launch.grid, p));
  }
  if (launch.dq_grid.blocks > 0) {
    DqParams p = launch.dq;
    p.sums = sums;
    p.dq.data = buffers[Role::kDq];
    set_addresses(buffers, &p.lengths);
    VOLLEY_TRY(queue.write_dq(launch.dq_grid, p));
  }
  VOLLEY_TRY(enqueue_query_gradients(launch.queries, launch.dbias, at, delta, workspace, queue));
  return enqueue_dsink(launch.dsink, at, delta, queue);
}

}  // namespace volley::cuda::v2
