// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/gradient_work.h"

#include <algorithm>
#include <limits>

#include "cpu/contents.h"
#include "cpu/thread_pool.h"

namespace volley::core {
namespace {

constexpr float kUnseen = -std::numeric_limits<float>::infinity();

// A row of dO or o.
SourceRow row_at(const View& view, const Sequence& sequence, int64_t h, int64_t i) {
  const int64_t bytes = dtype_size(view.tensor->dtype);
  const int64_t at = view.offset(sequence.batch, sequence.q_begin + i, h);
  return {static_cast<const char*>(view.data) + at * bytes, view.tensor->stride[3] * bytes,
          view.tensor->dtype};
}

}  // namespace

GradientWork::GradientWork(const Problem& problem, const Buffers& buffers, const Kernel& kernel)
    : problem_(problem),
      buffers_(buffers),
      kernel_(kernel),
      lengths_(lengths_of(buffers)),
      work_(problem, buffers),
      k_stride_(padded(problem.d)),
      v_stride_(padded(problem.dv)) {}

TilePlace GradientWork::place(int64_t n, const Sequence& sequence, int64_t first_head,
                              int64_t heads, int64_t t) const {
  TilePlace place;
  place.number = n;
  place.sequence = sequence;
  place.key_head = first_head / problem_.group();
  place.first_head = first_head;
  place.heads = heads;
  place.first_row = t * kTileRows;
  const int64_t left = sequence.sq * heads - place.first_row;
  place.rows = static_cast<int32_t>(std::clamp<int64_t>(left, 0, kTileRows));
  return place;
}

int64_t GradientWork::scratch_size() const {
  return kTileRows * (2 * padded(problem_.d) + 2 * padded(problem_.dv) + k_stride_) +
         kTileKeys * (k_stride_ + v_stride_ + 2 * kTileRows + kGradientStride);
}

void GradientWork::place_scratch(float* memory, GradientTile* tile) const {
  const auto take = [&](int64_t floats) {
    float* taken = memory;
    memory += floats;
    return taken;
  };
  Tile& pairs = tile->pairs;
  pairs.k_stride = k_stride_;
  pairs.v_stride = v_stride_;
  pairs.q_packed = take(k_stride_ * kTileRows);
  pairs.k_packed = take(kTileKeys * k_stride_);
  pairs.v_packed = take(kTileKeys * v_stride_);
  pairs.p = take(kTileKeys * kTileRows);
  pairs.o = nullptr;
  tile->q = take(kTileRows * k_stride_);
  tile->dout_rows = take(kTileRows * v_stride_);
  tile->dout_columns = take(v_stride_ * kTileRows);
  tile->dp = take(kTileKeys * kGradientStride);
  tile->slope = take(kTileKeys * kTileRows);
  tile->dq = take(kTileRows * k_stride_);
}

Status GradientWork::allocate(int threads) {
  const auto& shape = problem_[Role::kQ].shape;
  VOLLEY_TRY(shifts_.allocate(problem_.hq * shape[0] * shape[1]));
  return scratch_.allocate(threads * scratch_size());
}

int64_t GradientWork::row_of(const Sequence& sequence, int64_t h, int64_t i) const {
  const auto& shape = problem_[Role::kQ].shape;
  return (h * shape[0] + sequence.batch) * shape[1] + sequence.q_begin + i;
}

double GradientWork::lse(const Sequence& sequence, int64_t h, int64_t i) const {
  return view(Role::kLse).at(sequence.batch, h, sequence.q_begin + i);
}

void GradientWork::compute_shifts(int threads) {
  const View dout = view(Role::kDout);
  const View o = view(Role::kO);
  const View dlse = view(Role::kDlse);
  parallel_for(problem_.b * problem_.hq, threads, [&](int64_t task, int) {
    const Sequence s = sequence(task / problem_.hq);
    const int64_t h = task % problem_.hq;
    for (int64_t i = 0; i < s.sq; ++i) {
      const float delta = kernel_.dot(row_at(dout, s, h, i), row_at(o, s, h, i), problem_.dv);
      const double given = dlse.present() ? dlse.at(s.batch, h, s.q_begin + i) : 0;
      *shifts_.at(row_of(s, h, i)) = static_cast<float>(given - delta);
    }
  });
}

void GradientWork::fill(const TilePlace& place, int worker, GradientTile* tile) const {
  place_scratch(scratch_.at(worker * scratch_size()), tile);
  Tile& pairs = tile->pairs;
  work_.fill(place, &pairs);
  const View dout = view(Role::kDout);
  tile->dout_dtype = dout.tensor->dtype;
  std::fill_n(tile->lse, kTileRows, 0.0f);
  std::fill_n(tile->shift, kTileRows, 0.0f);
  for (int r = 0; r < place.rows; ++r) {
    const int64_t i = Work::query(place, r);
    const int64_t h = Work::head(place, r);
    const SourceRow row = row_at(dout, place.sequence, h, i);
    tile->dout[r] = row.base;
    tile->dout_column = row.column;
    tile->lse[r] = static_cast<float>(lse(place.sequence, h, i));
    tile->shift[r] = *shifts_.at(row_of(place.sequence, h, i));
    if (tile->lse[r] == kUnseen) pairs.first[r] = pairs.last[r] = 0;
  }
}

}  // namespace volley::core
