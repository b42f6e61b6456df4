// SPDX-License-Identifier: BSD-3-Clause
//
// Which rows and which keys a tile has. See work.h.
#include "cpu/work.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/contents.h"
#include "dtype.h"

namespace volley::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Rows first + j of one batch and head of a tensor in the normal form (batch, row, head, column).
SourceRows rows_of(const Tensor& tensor, const void* data, int64_t batch, int64_t first,
                   int64_t head) {
  const int64_t bytes = dtype_size(tensor.dtype);
  const int64_t at = batch * tensor.stride[0] + first * tensor.stride[1] + head * tensor.stride[2];
  return {static_cast<const char*>(data) + at * bytes, tensor.stride[1] * bytes,
          tensor.stride[3] * bytes};
}

}  // namespace

Work::Work(const Problem& problem, const Buffers& buffers)
    : problem_(problem),
      buffers_(buffers),
      lengths_(lengths_of(buffers)),
      group_(problem.group()),
      tiles_before_{0} {
  const int64_t sequences = problem.b + (problem.packed_q ? 1 : 0);
  tiles_before_.reserve(static_cast<size_t>(sequences) + 1);
  for (int64_t n = 0; n < sequences; ++n) {
    tiles_before_.push_back(tiles() + problem.hk * tiles_per_head(sequence(n)));
  }
}

// Packed rows past the last cumulative length count as one more sequence, of used length 0.
Sequence Work::sequence(int64_t n) const {
  if (n < problem_.b) return sequence_at(problem_, lengths_, n);
  Sequence rest;
  rest.q_begin = lengths_.cu_q[problem_.b];
  rest.q_rows = problem_[Role::kQ].shape[1] - rest.q_begin;
  return rest;
}

int64_t Work::tiles_per_head(const Sequence& s) const {
  return (s.q_rows * group_ + kTileRows - 1) / kTileRows;
}

TilePlace Work::place(int64_t index) const {
  const auto after = std::upper_bound(tiles_before_.begin(), tiles_before_.end(), index);
  const int64_t n = after - tiles_before_.begin() - 1;
  const int64_t local = index - tiles_before_[static_cast<size_t>(n)];

  TilePlace place;
  place.sequence = sequence(n);
  place.key_head = local % problem_.hk;
  const int64_t tile = tiles_per_head(place.sequence) - 1 - local / problem_.hk;
  place.first_row = tile * kTileRows;
  const int64_t left = place.sequence.q_rows * group_ - place.first_row;
  place.rows = static_cast<int32_t>(std::min<int64_t>(left, kTileRows));
  return place;
}

void Work::fill(const TilePlace& place, Tile* tile) const {
  const Sequence& s = place.sequence;
  tile->dtype = problem_[Role::kQ].dtype;
  tile->d = problem_.d;
  tile->dv = problem_.dv;
  tile->scale = static_cast<float>(problem_.scale);
  tile->softcap = static_cast<float>(problem_.softcap);
  tile->k = rows_of(problem_[Role::kK], buffers_[Role::kK], s.batch_k, s.k_begin, place.key_head);
  tile->v = rows_of(problem_[Role::kV], buffers_[Role::kV], s.batch_k, s.k_begin, place.key_head);

  tile->rows = place.rows;
  tile->begin = s.sk;
  tile->end = 0;
  std::fill_n(tile->first, kTileRows, 0);
  std::fill_n(tile->last, kTileRows, 0);
  std::fill_n(tile->m, kTileRows, -kInfinity);
  std::fill_n(tile->l, kTileRows, 0.0f);
  for (int r = 0; r < place.rows; ++r) {
    const int64_t i = query(place, r);
    if (i >= s.sq) break;
    tile->first[r] = s.first_key(problem_.band, i);
    tile->last[r] = s.last_key(problem_.band, i);
    const SourceRows q =
        rows_of(problem_[Role::kQ], buffers_[Role::kQ], s.batch, s.q_begin + i, head(place, r));
    tile->q[r] = q.base;
    tile->q_column = q.column;
    if (tile->first[r] < tile->last[r]) {
      tile->begin = std::min(tile->begin, tile->first[r]);
      tile->end = std::max(tile->end, tile->last[r]);
    }
    if (problem_.has(Role::kSink)) {
      const Tensor& sink = problem_[Role::kSink];
      const auto logit = static_cast<float>(
          load_element(sink.dtype, buffers_[Role::kSink], head(place, r) * sink.stride[0]));
      // exp(sink - m) is 1 with m = sink. NaN and +inf spoil the row: l keeps that as NaN, because
      // m must be ordered and something that can be subtracted.
      const bool spoilt = std::isnan(logit) || logit == kInfinity;
      tile->m[r] = spoilt ? -kInfinity : logit;
      tile->l[r] = spoilt ? std::numeric_limits<float>::quiet_NaN() : logit == -kInfinity ? 0 : 1;
    }
  }
}

}  // namespace volley::core
