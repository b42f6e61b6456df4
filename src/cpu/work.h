// SPDX-License-Identifier: BSD-3-Clause
//
// Work: a problem cut into independent tiles. A tile is up to kTileRows rows of one sequence and
// one key head; its rows run over the query heads of the group first, then over the queries, so
// that a short sequence with many heads still fills tiles. Also filled are the rows that must only
// be cleared: beyond a used length, or beyond the last cumulative one. Read tile.h next.
#pragma once

#include <cstdint>
#include <vector>

#include "backend.h"
#include "cpu/tile.h"
#include "sequence.h"

namespace volley::core {

struct TilePlace {
  int64_t number = 0;  // of the sequence
  Sequence sequence;
  int64_t key_head = 0;
  int64_t first_head = 0;  // of the query heads whose rows it holds; they share the key head
  int64_t heads = 0;
  int64_t first_row = 0;
  int32_t rows = 0;
};

class Work {
 public:
  Work(const Problem& problem, const Buffers& buffers);

  int64_t tiles() const { return tiles_before_.back(); }

  // Tile `index`: those with the most keys of a causal problem first.
  TilePlace place(int64_t index) const;

  // Row r of a tile belongs to this query, counted within its sequence, and to this query head.
  static int64_t query(const TilePlace& place, int r) {
    return (place.first_row + r) / place.heads;
  }
  static int64_t head(const TilePlace& place, int r) {
    return place.first_head + (place.first_row + r) % place.heads;
  }

  // Everything but the scratch pointers.
  void fill(const TilePlace& place, Tile* tile) const;

 private:
  Sequence sequence(int64_t n) const;
  int used_rows(const TilePlace& place) const;
  SourceRows keys_of(Role role, const TilePlace& place) const;
  void fill_rows(const TilePlace& place, Tile* tile) const;
  void fill_sink(const TilePlace& place, Tile* tile) const;
  void fill_pairs(const TilePlace& place, Role role, PairValues* pairs) const;
  void fill_alibi(const TilePlace& place, Tile* tile) const;
  void fill_dropout(const TilePlace& place, Tile* tile) const;
  int64_t tiles_per_head(const Sequence& s) const;

  const Problem& problem_;
  const Buffers& buffers_;
  const Lengths lengths_;
  const int64_t group_;
  std::vector<int64_t> tiles_before_;  // each sequence; the last entry is their number
};

}  // namespace volley::core
