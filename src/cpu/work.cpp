// SPDX-License-Identifier: BSD-3-Clause
//
// Which rows and which keys a tile has. See work.h.
#include "cpu/work.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cpu/contents.h"
#include "cpu/view.h"
#include "dropout.h"
#include "dtype.h"

namespace volley::core {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

const char* bytes_at(const View& view, int64_t elements) {
  return static_cast<const char*>(view.data) + elements * dtype_size(view.tensor->dtype);
}

int64_t byte_stride(const View& view, size_t axis) {
  return view.tensor->stride[axis] * dtype_size(view.tensor->dtype);
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
  place.number = n;
  place.sequence = sequence(n);
  place.key_head = local % problem_.hk;
  place.first_head = place.key_head * group_;
  place.heads = group_;
  const int64_t tile = tiles_per_head(place.sequence) - 1 - local / problem_.hk;
  place.first_row = tile * kTileRows;
  const int64_t left = place.sequence.q_rows * group_ - place.first_row;
  place.rows = static_cast<int32_t>(std::min<int64_t>(left, kTileRows));
  return place;
}

// Rows run over queries last, so those of used queries come first.
int Work::used_rows(const TilePlace& place) const {
  const int64_t used = place.sequence.sq * place.heads - place.first_row;
  return static_cast<int>(std::clamp<int64_t>(used, 0, place.rows));
}

void Work::fill(const TilePlace& place, Tile* tile) const {
  tile->dtype = problem_[Role::kQ].dtype;
  tile->d = problem_.d;
  tile->dv = problem_.dv;
  tile->scale = static_cast<float>(problem_.scale);
  tile->softcap = static_cast<float>(problem_.softcap);
  tile->k = keys_of(Role::kK, place);
  tile->v = keys_of(Role::kV, place);
  fill_rows(place, tile);
  fill_sink(place, tile);
  fill_pairs(place, Role::kBias, &tile->bias);
  fill_pairs(place, Role::kMask, &tile->mask);
  fill_alibi(place, tile);
  fill_dropout(place, tile);
}

SourceRows Work::keys_of(Role role, const TilePlace& place) const {
  const View view = view_of(problem_, buffers_, role);
  const Sequence& s = place.sequence;
  const int64_t page = problem_.page;
  const int64_t at = page > 0 ? view.offset(0, 0, place.key_head)
                              : view.offset(s.batch_k, s.k_begin, place.key_head);
  SourceRows rows{};
  rows.base = bytes_at(view, at);
  rows.row = byte_stride(view, 1);
  rows.column = byte_stride(view, 3);
  if (page > 0) {
    const View table = view_of(problem_, buffers_, Role::kPageTable);
    rows.page_rows = page;
    rows.table = static_cast<const int32_t*>(table.data) + table.offset(place.number);
    rows.table_stride = table.tensor->stride[1];
    rows.page = byte_stride(view, 0);
  }
  const View scales =
      view_of(problem_, buffers_, role == Role::kK ? Role::kKDescale : Role::kVDescale);
  if (scales.present()) {
    rows.scales.base = bytes_at(scales, scales.offset(page > 0 ? 0 : place.number, place.key_head));
    rows.scales.dtype = scales.tensor->dtype;
    rows.scales.block = problem_.scale_block[role == Role::kK ? 1 : 2];
    rows.scales.stride = byte_stride(scales, 2);
    rows.scales.page = byte_stride(scales, 0);
  }
  return rows;
}

// Rows past the used length see nothing.
void Work::fill_rows(const TilePlace& place, Tile* tile) const {
  const Sequence& s = place.sequence;
  const View q = view_of(problem_, buffers_, Role::kQ);
  const View scales = view_of(problem_, buffers_, Role::kQDescale);
  tile->rows = place.rows;
  tile->q_column = byte_stride(q, 3);
  tile->begin = s.sk;
  tile->end = 0;
  std::fill_n(tile->first, kTileRows, 0);
  std::fill_n(tile->last, kTileRows, 0);
  for (int r = 0; r < used_rows(place); ++r) {
    const int64_t i = query(place, r);
    const int64_t h = head(place, r);
    tile->q[r] = bytes_at(q, q.offset(s.batch, s.q_begin + i, h));
    tile->q_scale[r] = 1;
    if (scales.present()) {
      const int64_t scale_head = scales.tensor->shape[1] == problem_.hq ? h : place.key_head;
      tile->q_scale[r] =
          static_cast<float>(scales.at(place.number, scale_head, i / problem_.scale_block[0]));
    }
    tile->first[r] = s.first_key(problem_.band, i);
    tile->last[r] = s.last_key(problem_.band, i);
    if (tile->first[r] < tile->last[r]) {
      tile->begin = std::min(tile->begin, tile->first[r]);
      tile->end = std::max(tile->end, tile->last[r]);
    }
  }
}

// exp(sink - m) is 1 with m = sink. NaN and +inf spoil the row: l keeps that as NaN, because m must
// be ordered and something that can be subtracted.
void Work::fill_sink(const TilePlace& place, Tile* tile) const {
  std::fill_n(tile->m, kTileRows, -kInfinity);
  std::fill_n(tile->l, kTileRows, 0.0f);
  const View sink = view_of(problem_, buffers_, Role::kSink);
  if (!sink.present()) return;
  for (int r = 0; r < used_rows(place); ++r) {
    const auto logit = static_cast<float>(sink.at(head(place, r)));
    const bool spoilt = std::isnan(logit) || logit == kInfinity;
    tile->m[r] = spoilt ? -kInfinity : logit;
    tile->l[r] = spoilt ? std::numeric_limits<float>::quiet_NaN() : logit == -kInfinity ? 0 : 1;
  }
}

void Work::fill_pairs(const TilePlace& place, Role role, PairValues* pairs) const {
  const View view = view_of(problem_, buffers_, role);
  pairs->present = view.present();
  if (!view.present()) return;
  pairs->dtype = view.tensor->dtype;
  pairs->column = byte_stride(view, 3);
  for (int r = 0; r < used_rows(place); ++r) {
    pairs->row[r] = bytes_at(view, view.offset(place.number, head(place, r), query(place, r)));
  }
}

void Work::fill_alibi(const TilePlace& place, Tile* tile) const {
  Alibi* alibi = &tile->alibi;
  const View slopes = view_of(problem_, buffers_, Role::kAlibiSlopes);
  alibi->present = slopes.present();
  if (!slopes.present()) return;
  std::fill_n(alibi->slope, kTileRows, 0.0f);
  std::fill_n(alibi->diagonal, kTileRows, 0);
  for (int r = 0; r < used_rows(place); ++r) {
    alibi->slope[r] = static_cast<float>(slopes.at(place.number, head(place, r)));
    alibi->diagonal[r] = query(place, r) + place.sequence.offset;
  }
}

void Work::fill_dropout(const TilePlace& place, Tile* tile) const {
  Dropout* dropout = &tile->dropout;
  dropout->present = problem_.dropout_p > 0;
  if (!dropout->present) return;
  const auto read = [&](Role role) {
    const View view = view_of(problem_, buffers_, role);
    uint64_t value = 0;
    if (view.present()) std::memcpy(&value, view.data, sizeof value);
    return value;
  };
  const PhiloxKey key = dropout_key(read(Role::kDropoutSeed), read(Role::kDropoutOffset));
  std::copy_n(key.word, 2, dropout->key);
  dropout->threshold = dropout_threshold(problem_.dropout_p);
  dropout->keep = static_cast<float>(1 / (1 - problem_.dropout_p));
  dropout->sequence = static_cast<uint32_t>(place.number);
  for (int r = 0; r < kTileRows; ++r) {
    dropout->query[r] = static_cast<uint32_t>(query(place, r));
    dropout->head[r] = static_cast<uint32_t>(head(place, r));
  }
}

}  // namespace volley::core
