// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/sm80_launch.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cuda/band.h"
#include "cuda/schedule.h"
#include "cuda/sm80/config.h"
#include "dropout.h"

namespace volley::cuda::v2 {
namespace {

using core::Problem;
using core::Role;
using core::Tensor;

constexpr uint64_t kAlignment = 256;  // bytes, of a packed operand in the workspace
constexpr int kPackThreads = 256;
constexpr i64 kPackBlocks = 4096;  // at most: each takes several rounds then

Strides4 strides_of(const Tensor& t) {
  return {{t.stride[0], t.stride[1], t.stride[2], t.stride[3]}};
}

int number_type(int32_t dtype) {
  return dtype == VOLLEY_F32 ? kF32 : dtype == VOLLEY_F16 ? kF16 : kBf16;
}

int sink_type(const Problem& problem) {
  if (!problem.has(Role::kSink)) return kNoSink;
  const int32_t dtype = problem[Role::kSink].dtype;
  return dtype == VOLLEY_F32 ? kSinkF32 : dtype == VOLLEY_F16 ? kSinkF16 : kSinkBf16;
}

int rounded_up(i64 columns) { return static_cast<int>((columns + 7) / 8 * 8); }

// Can the kernels read q, k or v where it lies, 16 bytes at a time? Otherwise it is copied first.
bool is_readable(const Tensor& t) {
  constexpr int64_t kVector = 8;  // elements
  const bool strides = std::all_of(t.stride.begin(), t.stride.begin() + 3,
                                   [](int64_t stride) { return stride % kVector == 0; });
  return strides && t.stride[3] == 1 && t.shape[3] % kVector == 0 && t.alignment >= 16;
}

// Plans the copy of an operand that the kernels cannot read where it is.
void add_packing(const Problem& problem, Role role, ForwardLaunch* launch, Operand* operand) {
  const Tensor& t = problem[role];
  const i64 rows = t.shape[1], heads = t.shape[2];
  const i64 columns = rounded_up(t.shape[3]);
  operand->stride = {rows * heads * columns, heads * columns, columns};
  Packing packing{};
  packing.role = role;
  packing.offset = launch->workspace;
  packing.params.stride = strides_of(t);
  packing.params.heads = static_cast<int>(heads);
  packing.params.columns = static_cast<int>(t.shape[3]);
  packing.params.rows = rows;
  packing.params.vectors = t.shape[0] * rows * heads * columns / 8;
  const i64 blocks = (packing.params.vectors + kPackThreads - 1) / kPackThreads;
  packing.grid = {static_cast<int>(std::min(blocks, kPackBlocks)), kPackThreads, 0};
  launch->workspace +=
      (2 * static_cast<uint64_t>(t.shape[0] * rows * heads * columns) + kAlignment - 1) /
      kAlignment * kAlignment;
  launch->packings.push_back(packing);
}

void set_operand(const Problem& problem, Role role, ForwardLaunch* launch, Operand* operand) {
  const Tensor& t = problem[role];
  if (t.empty()) return;
  if (is_readable(t)) {
    operand->stride = {t.stride[0], t.stride[1], t.stride[2]};
  } else {
    add_packing(problem, role, launch, operand);
  }
}

Extras make_extras(const Problem& problem) {
  Extras e{};
  const double logit = problem.softcap > 0 ? problem.softcap : problem.scale;  // of a score of 1
  e.score_scale = static_cast<float>(logit * std::numbers::log2e);
  if (problem.softcap > 0) {
    e.capped = 1;
    e.cap_factor = static_cast<float>(2 * std::numbers::log2e * problem.scale / problem.softcap);
  }
  const Tensor& bias = problem[Role::kBias];
  if (bias.present) {
    e.bias_type = number_type(bias.dtype);
    e.bias_stride = strides_of(bias);
  }
  e.mask_stride = strides_of(problem[Role::kMask]);
  e.slope_batch_stride = problem[Role::kAlibiSlopes].stride[0];
  e.slope_head_stride = problem[Role::kAlibiSlopes].stride[1];
  e.offset = problem.band.offset(problem.max_sq, problem.max_sk);
  e.dropout_threshold = core::dropout_threshold(problem.dropout_p);
  return e;
}

Lengths make_lengths(const Problem& problem) {
  Lengths l{};
  l.batch = static_cast<int>(problem.b);
  l.total_q = static_cast<int>(problem[Role::kQ].shape[1]);
  l.total_k = static_cast<int>(problem[Role::kK].shape[1]);
  l.relative = problem.band.alignment == VOLLEY_ALIGN_BOTTOM_RIGHT ? 1 : 0;
  const i64 offset = l.relative != 0 ? 0 : problem.band.offset(problem.max_sq, problem.max_sk);
  l.low = low_of_band(problem.band.left, offset);
  l.high = high_of_band(problem.band.right, offset);
  return l;
}

void set_output(const Tensor& o, Output* out) {
  out->stride = strides_of(o);
  out->type = number_type(o.dtype);
  const i64 vector = 16 / (o.dtype == VOLLEY_F32 ? 4 : 2);
  const bool strides = std::all_of(o.stride.begin(), o.stride.begin() + 3,
                                   [&](i64 stride) { return stride % vector == 0; });
  const bool contiguous = o.shape[3] == 1 || o.stride[3] == 1;
  out->vector = strides && contiguous && o.shape[3] % 8 == 0 && o.alignment >= 16 ? 1 : 0;
}

ForwardParams make_params(const Problem& problem, const Config& config) {
  ForwardParams p{};
  set_output(problem[Role::kO], &p.o);
  const Tensor& lse = problem[Role::kLse];
  p.lse_stride = {lse.stride[0], lse.stride[2], lse.stride[1]};
  p.sink_stride = problem[Role::kSink].stride[0];
  p.sink_type = sink_type(problem);
  p.extras = make_extras(problem);
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
  p.lengths = make_lengths(problem);
  return p;
}

}  // namespace

ForwardLaunch make_forward(const core::Plan& plan) {
  const Problem& problem = plan.problem;
  const Config config = forward_config(plan.config.row);
  ForwardLaunch launch;
  if (problem[Role::kO].empty()) return launch;
  launch.row = plan.config.row;
  launch.params = make_params(problem, config);
  set_operand(problem, Role::kQ, &launch, &launch.params.q);
  set_operand(problem, Role::kK, &launch, &launch.params.k);
  set_operand(problem, Role::kV, &launch, &launch.params.v);
  const int most = problem.max_sms > 0 ? problem.max_sms : launch.params.tiles;
  // At least one: rows that no query in use owns are cleared.
  launch.grid = {std::max(1, std::min(launch.params.tiles, most)), threads(config),
                 shared_bytes(config)};
  return launch;
}

core::Status enqueue_forward(const ForwardLaunch& launch, const core::Buffers& at,
                             core::Workspace workspace, Queue& queue) {
  if (launch.grid.blocks == 0) return {};
  ForwardParams p = launch.params;
  p.q.data = at.as<const Bits16>(Role::kQ);
  p.k.data = at.as<const Bits16>(Role::kK);
  p.v.data = at.as<const Bits16>(Role::kV);
  p.o.data = at[Role::kO];
  p.lse = at.as<float>(Role::kLse);
  p.sink = at[Role::kSink];
  p.lengths.cu_q = at.as<const int>(Role::kCuSeqlensQ);
  p.lengths.cu_k = at.as<const int>(Role::kCuSeqlensK);
  p.lengths.used_q = at.as<const int>(Role::kSequsedQ);
  p.lengths.used_k = at.as<const int>(Role::kSequsedK);
  p.extras.bias = at[Role::kBias];
  p.extras.slopes = at.as<const float>(Role::kAlibiSlopes);
  p.extras.mask = at.as<const unsigned char>(Role::kMask);
  p.extras.dropout_seed = at.as<const u64>(Role::kDropoutSeed);
  p.extras.dropout_offset = at.as<const u64>(Role::kDropoutOffset);
  for (const Packing& packing : launch.packings) {
    PackParams params = packing.params;
    params.from = at.as<const Bits16>(packing.role);
    params.to = reinterpret_cast<Bits16*>(static_cast<char*>(workspace.data) + packing.offset);
    (packing.role == Role::kQ ? p.q : packing.role == Role::kK ? p.k : p.v).data = params.to;
    VOLLEY_TRY(queue.pack(packing.grid, params));
  }
  return queue.forward(launch.row, launch.grid, p);
}

}  // namespace volley::cuda::v2
