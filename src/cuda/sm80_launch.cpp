// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/sm80_launch.h"

#include <algorithm>

#include "cuda/sm80/config.h"

namespace volley::cuda::v2 {
namespace {

using core::Problem;
using core::Role;

ForwardParams make_params(const Problem& problem, const Config& config) {
  ForwardParams p{};
  p.o = output_of(problem[Role::kO]);
  p.lse_stride = heads_first(problem[Role::kLse]);
  p.sink_stride = problem[Role::kSink].stride[0];
  p.sink_type = sink_type(problem);
  p.extras = extras_of(problem);
  p.scale_log2 = config.extras ? 1.f : p.extras.score_scale;
  p.keep_scale = static_cast<float>(1 / (1 - problem.dropout_p));
  p.sq = static_cast<int>(problem.max_sq);
  p.sk = static_cast<int>(problem.max_sk);
  p.d = rounded_up(problem.d);
  p.dv = rounded_up(problem.dv);
  p.o_columns = static_cast<int>(problem.dv);
  p.heads = static_cast<int>(problem.hq);
  p.group = static_cast<int>(problem.group());
  p.q_tiles = static_cast<int>((problem.max_sq + config.block_m - 1) / config.block_m);
  p.tiles = static_cast<int>(problem.b * problem.hq * p.q_tiles);
  p.lengths = lengths_of(problem);
  return p;
}

}  // namespace

ForwardLaunch make_forward(const core::Plan& plan) {
  const Problem& problem = plan.problem;
  const Config config = forward_config(plan.config.row);
  ForwardLaunch launch;
  if (problem[Role::kO].empty()) return launch;
  Layout layout;
  launch.row = plan.config.row;
  launch.params = make_params(problem, config);
  launch.params.q = launch.operands.add(problem, Role::kQ, &layout);
  launch.params.k = launch.operands.add(problem, Role::kK, &layout);
  launch.params.v = launch.operands.add(problem, Role::kV, &layout);
  launch.workspace = layout.size();
  const int tiles = launch.params.tiles;
  // At least one: rows that no query in use owns are cleared.
  launch.grid = {std::max(1, bounded_blocks(tiles, tiles, problem.max_sms)), threads(config),
                 shared_bytes(config)};
  return launch;
}

core::Status enqueue_forward(const ForwardLaunch& launch, const core::Buffers& buffers,
                             core::Workspace workspace, Queue& queue) {
  if (launch.grid.blocks == 0) return {};
  core::Buffers at = buffers;
  VOLLEY_TRY(launch.operands.pack(&at, workspace, queue));
  ForwardParams p = launch.params;
  p.q.data = at.as<const Bits16>(Role::kQ);
  p.k.data = at.as<const Bits16>(Role::kK);
  p.v.data = at.as<const Bits16>(Role::kV);
  p.o.data = at[Role::kO];
  p.lse = at.as<float>(Role::kLse);
  p.sink = at[Role::kSink];
  set_addresses(at, &p.lengths);
  set_addresses(at, &p.extras);
  return queue.forward(launch.row, launch.grid, p);
}

}  // namespace volley::cuda::v2
