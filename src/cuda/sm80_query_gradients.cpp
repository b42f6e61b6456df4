// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/sm80_query_gradients.h"

#include <algorithm>
#include <array>

namespace volley::cuda::v2 {
namespace {

using core::Buffers;
using core::Problem;
using core::Role;
using core::Tensor;

bool is_summed(const Problem& problem, size_t axis) {
  const std::array<i64, 4> pairs{problem.b, problem.hq, problem.max_sq, problem.max_sk};
  return problem.has(Role::kDbias) && problem[Role::kDbias].shape[axis] == 1 && pairs[axis] != 1;
}

// Does an element of dbias get more than one dS?
bool sums_dbias(const Problem& problem) {
  return is_summed(problem, 0) || is_summed(problem, 1) || is_summed(problem, 2) ||
         is_summed(problem, 3);
}

// Where the order of dbias' sums must be fixed, one CTA computes the tiles of all sequences and
// heads that share its elements: in a tile, an element is one thread's.
void find_runs(const Problem& problem, QueryGradientParams* p) {
  p->run = p->run_step = 1;
  if (!problem.deterministic && !problem.batch_invariant) return;
  const bool sequences = is_summed(problem, 0) && problem.b > 0, heads = is_summed(problem, 1);
  if (sequences) p->run *= static_cast<int>(problem.b);
  if (heads) p->run *= p->heads;
  p->run_step = heads ? p->q_tiles : p->q_tiles * p->heads;
}

// Of a tensor without gaps, 0 along axes of size 1.
Strides4 sum_strides(const Tensor& t) {
  Strides4 stride{};
  i64 step = 1;
  for (size_t axis = 4; axis-- > 0; step *= t.shape[axis]) {
    stride.axis[axis] = t.shape[axis] == 1 ? 0 : step;
  }
  return stride;
}

float* sums_of(const DbiasLaunch& launch, core::Workspace workspace) {
  return reinterpret_cast<float*>(static_cast<char*>(workspace.data) + launch.offset);
}

}  // namespace

bool takes_query_tiles(const Problem& problem) {
  return problem.deterministic || problem.batch_invariant || problem.has(Role::kDbias);
}

bool sums_dbias_over_queries(const Problem& problem) { return is_summed(problem, 2); }

DbiasLaunch make_dbias(const Problem& problem, Layout* layout) {
  const Tensor& t = problem[Role::kDbias];
  DbiasLaunch launch;
  if (!t.present || t.empty()) return launch;
  DbiasParams& p = launch.params;
  p.dbias = output_of(t);
  p.heads = static_cast<int>(t.shape[1]);
  p.rows = static_cast<int>(t.shape[2]);
  p.keys = static_cast<int>(t.shape[3]);
  p.accumulate = problem.accumulate_grads ? 1 : 0;
  p.elements = t.shape[0] * t.shape[1] * t.shape[2] * t.shape[3];
  if (sums_dbias(problem)) {
    launch.bytes = 4 * static_cast<uint64_t>(p.elements);
    launch.offset = layout->take(launch.bytes);
    launch.target.sum_stride = sum_strides(t);
    launch.target.over_rows = is_summed(problem, 2) ? 1 : 0;
    launch.target.over_keys = is_summed(problem, 3) ? 1 : 0;
  } else {
    launch.target.out = p.dbias;
    if (problem.accumulate_grads) return launch;
  }
  launch.grid = grid_of(p.elements, problem.max_sms);
  return launch;
}

QueryLaunch make_query_gradients(const Problem& problem, const Config& config,
                                 const BackwardParams& main, const DbiasLaunch& dbias) {
  QueryLaunch launch;
  if (problem[Role::kQ].empty()) return launch;
  launch.row = query_row(config);
  const Config own = query_config(launch.row);
  QueryGradientParams& p = launch.params;
  p.q = main.q;
  p.k = main.k;
  p.v = main.v;
  p.dout = main.dout;
  p.lse_stride = main.lse_stride;
  p.dq = output_of(problem[Role::kDq]);
  p.bias = dbias.target;
  p.scale = main.scale;
  p.keep_scale = main.keep_scale;
  p.sq = main.sq;
  p.sk = main.sk;
  p.d = main.d;
  p.dv = main.dv;
  p.columns = static_cast<int>(problem.d);
  p.heads = main.heads;
  p.group = main.group;
  p.q_tiles = static_cast<int>((problem.max_sq + own.block_m - 1) / own.block_m);
  p.tiles = static_cast<int>(problem.b * problem.hq * p.q_tiles);
  p.accumulate = main.accumulate;
  p.query_rows = main.query_rows;
  p.lengths = main.lengths;
  p.extras = main.extras;
  find_runs(problem, &p);
  // At least one: rows that no query in use owns are cleared.
  const int runs = p.tiles / p.run;
  launch.grid = {std::max(1, bounded_blocks(runs, runs, problem.max_sms)), threads(own),
                 query_shared_bytes(own)};
  return launch;
}

DsinkLaunch make_dsink(const Problem& problem) {
  DsinkLaunch launch;
  const Tensor& dsink = problem[Role::kDsink];
  if (!dsink.present || dsink.empty()) return launch;
  DsinkParams& p = launch.params;
  p.sink_stride = problem[Role::kSink].stride[0];
  p.sink_type = sink_type(problem);
  p.lse_stride = heads_first(problem[Role::kLse]);
  p.dlse_stride = heads_first(problem[Role::kDlse]);
  p.dsink_stride = dsink.stride[0];
  p.sq = static_cast<int>(problem.max_sq);
  p.sk = static_cast<int>(problem.max_sk);
  p.heads = static_cast<int>(problem.hq);
  p.accumulate = problem.accumulate_grads ? 1 : 0;
  p.query_rows = problem[Role::kQ].shape[1];
  p.lengths = lengths_of(problem);
  launch.grid = {bounded_blocks(problem.hq, 65536, problem.max_sms), kDsinkThreads, kDsinkShared};
  return launch;
}

core::Status enqueue_dbias_start(const DbiasLaunch& launch, const Buffers& at,
                                 core::Workspace workspace, Queue& queue) {
  if (launch.bytes > 0) return queue.zero(sums_of(launch, workspace), launch.bytes);
  if (launch.grid.blocks == 0) return {};
  DbiasParams p = launch.params;  // pairs that no tile visits
  p.dbias.data = at[Role::kDbias];
  return queue.write_dbias(launch.grid, p);
}

core::Status enqueue_query_gradients(const QueryLaunch& launch, const DbiasLaunch& dbias,
                                     const Buffers& at, const float* delta,
                                     core::Workspace workspace, Queue& queue) {
  if (launch.grid.blocks > 0) {
    QueryGradientParams p = launch.params;
    p.q.data = at.as<const Bits16>(Role::kQ);
    p.k.data = at.as<const Bits16>(Role::kK);
    p.v.data = at.as<const Bits16>(Role::kV);
    p.dout.data = at.as<const Bits16>(Role::kDout);
    p.lse = at.as<const float>(Role::kLse);
    p.delta = delta;
    p.dq.data = at[Role::kDq];
    if (dbias.bytes > 0) {
      p.bias.sums = sums_of(dbias, workspace);
    } else {
      p.bias.out.data = at[Role::kDbias];
    }
    set_addresses(at, &p.lengths);
    set_addresses(at, &p.extras);
    VOLLEY_TRY(queue.query_gradients(launch.row, launch.grid, p));
  }
  if (dbias.bytes == 0) return {};
  DbiasParams p = dbias.params;
  p.sums = sums_of(dbias, workspace);
  p.dbias.data = at[Role::kDbias];
  return queue.write_dbias(dbias.grid, p);
}

core::Status enqueue_dsink(const DsinkLaunch& launch, const Buffers& at, const float* delta,
                           Queue& queue) {
  if (launch.grid.blocks == 0) return {};
  DsinkParams p = launch.params;
  p.sink = at[Role::kSink];
  p.lse = at.as<const float>(Role::kLse);
  p.dlse = at.as<const float>(Role::kDlse);
  p.delta = delta;
  p.dsink = at.as<float>(Role::kDsink);
  set_addresses(at, &p.lengths);
  return queue.sink_gradient(launch.grid, p);
}

}  // namespace volley::cuda::v2
