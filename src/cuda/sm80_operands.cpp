// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/sm80_operands.h"

#include <algorithm>
#include <numbers>

#include "cuda/band.h"
#include "dropout.h"

namespace volley::cuda::v2 {
namespace {

using core::Problem;
using core::Role;
using core::Tensor;

Strides4 strides_of(const Tensor& t) {
  return {{t.stride[0], t.stride[1], t.stride[2], t.stride[3]}};
}

int number_type(int32_t dtype) {
  return dtype == VOLLEY_F32 ? kF32 : dtype == VOLLEY_F16 ? kF16 : kBf16;
}

// Can rows of 16-bit elements be read and written 16 bytes at a time?
bool has_vectors(const Tensor& t) {
  constexpr int64_t kVector = 8;  // elements
  const bool strides = std::all_of(t.stride.begin(), t.stride.begin() + 3,
                                   [](int64_t stride) { return stride % kVector == 0; });
  return strides && t.stride[3] == 1 && t.shape[3] % kVector == 0 && t.alignment >= 16;
}

}  // namespace

uint64_t Layout::take(uint64_t bytes) {
  constexpr uint64_t kAlignment = 256;
  const uint64_t offset = size_;
  size_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return offset;
}

int bounded_blocks(i64 blocks, i64 most, int max_sms) {
  return static_cast<int>(std::min(blocks, max_sms > 0 ? std::min<i64>(most, max_sms) : most));
}

Grid grid_of(i64 elements, int max_sms) {
  constexpr int kThreads = 256;
  return {bounded_blocks((elements + kThreads - 1) / kThreads, 4096, max_sms), kThreads, 0};
}

Operand Operands::add(const Problem& problem, Role role, Layout* layout) {
  const Tensor& t = problem[role];
  if (t.empty()) return {};
  if (t.dtype != VOLLEY_F32 && has_vectors(t))
    return {nullptr, {t.stride[0], t.stride[1], t.stride[2]}};
  const i64 rows = t.shape[1], heads = t.shape[2], columns = rounded_up(t.shape[3]);
  const i64 elements = t.shape[0] * rows * heads * columns;
  Packing packing{};
  packing.role = role;
  packing.offset = layout->take(2 * static_cast<uint64_t>(elements));
  packing.params.stride = strides_of(t);
  packing.params.from_type = number_type(t.dtype);
  packing.params.to_type = number_type(problem[Role::kQ].dtype);
  packing.params.heads = static_cast<int>(heads);
  packing.params.columns = static_cast<int>(t.shape[3]);
  packing.params.rows = rows;
  packing.params.vectors = elements / 8;
  packing.grid = grid_of(packing.params.vectors, problem.max_sms);
  packings_.push_back(packing);
  return {nullptr, {rows * heads * columns, heads * columns, columns}};
}

core::Status Operands::pack(core::Buffers* at, core::Workspace workspace, Queue& queue) const {
  for (const Packing& packing : packings_) {
    PackParams params = packing.params;
    params.from = (*at)[packing.role];
    params.to = reinterpret_cast<Bits16*>(static_cast<char*>(workspace.data) + packing.offset);
    at->data[static_cast<size_t>(packing.role)] = params.to;
    VOLLEY_TRY(queue.pack(packing.grid, params));
  }
  return {};
}

Output output_of(const Tensor& o) {
  Output out{};
  out.stride = strides_of(o);
  out.type = number_type(o.dtype);
  out.vector = o.dtype != VOLLEY_F32 && has_vectors(o) ? 1 : 0;
  return out;
}

Strides heads_first(const Tensor& t) { return {t.stride[0], t.stride[2], t.stride[1]}; }

int sink_type(const Problem& problem) {
  if (!problem.has(Role::kSink)) return kNoSink;
  const int32_t dtype = problem[Role::kSink].dtype;
  return dtype == VOLLEY_F32 ? kSinkF32 : dtype == VOLLEY_F16 ? kSinkF16 : kSinkBf16;
}

Extras extras_of(const Problem& problem) {
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

void set_addresses(const core::Buffers& at, Extras* extras) {
  extras->bias = at[Role::kBias];
  extras->slopes = at.as<const float>(Role::kAlibiSlopes);
  extras->mask = at.as<const unsigned char>(Role::kMask);
  extras->dropout_seed = at.as<const u64>(Role::kDropoutSeed);
  extras->dropout_offset = at.as<const u64>(Role::kDropoutOffset);
}

Lengths lengths_of(const Problem& problem) {
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

void set_addresses(const core::Buffers& at, Lengths* lengths) {
  lengths->cu_q = at.as<const int>(Role::kCuSeqlensQ);
  lengths->cu_k = at.as<const int>(Role::kCuSeqlensK);
  lengths->used_q = at.as<const int>(Role::kSequsedQ);
  lengths->used_k = at.as<const int>(Role::kSequsedK);
}

}  // namespace volley::cuda::v2
