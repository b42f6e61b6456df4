// SPDX-License-Identifier: BSD-3-Clause
//
// GradientWork: a backward cut into tiles of query rows, as the forward's Work, and what each row
// brings along: dO, LSE and shift = dlse - sum of dO * o. Read gradient_tile.h next.
#pragma once

#include "backend.h"
#include "cpu/gradient_tile.h"
#include "cpu/kernel/kernel.h"
#include "cpu/scratch.h"
#include "cpu/view.h"
#include "cpu/work.h"

namespace volley::core {

class GradientWork {
 public:
  GradientWork(const Problem& problem, const Buffers& buffers, const Kernel& kernel);

  const Problem& problem() const { return problem_; }
  const Kernel& kernel() const { return kernel_; }
  View view(Role role) const { return view_of(problem_, buffers_, role); }
  int64_t tiles() const { return work_.tiles(); }  // at most as many threads are of use
  Sequence sequence(int64_t n) const { return sequence_at(problem_, lengths_, n); }

  // Tile t of the rows of `heads` query heads of sequence n, from `first_head` on; they share a key
  // head.
  TilePlace place(int64_t n, const Sequence& sequence, int64_t first_head, int64_t heads,
                  int64_t t) const;

  // Memory, before anything is written; then the shifts, which fill() needs.
  Status allocate(int threads);
  void compute_shifts(int threads);

  double shift(const Sequence& sequence, int64_t h, int64_t i) const {
    return *shifts_.at(row_of(sequence, h, i));
  }
  double lse(const Sequence& sequence, int64_t h, int64_t i) const;

  // Everything but dk and dv.
  void fill(const TilePlace& place, int worker, GradientTile* tile) const;

  int64_t k_stride() const { return k_stride_; }
  int64_t v_stride() const { return v_stride_; }

 private:
  int64_t row_of(const Sequence& sequence, int64_t h, int64_t i) const;
  void place_scratch(float* memory, GradientTile* tile) const;
  int64_t scratch_size() const;

  const Problem& problem_;
  const Buffers& buffers_;
  const Kernel& kernel_;
  const Lengths lengths_;
  const Work work_;
  const int64_t k_stride_;
  const int64_t v_stride_;
  Scratch shifts_;   // (hq, rows of q)
  Scratch scratch_;  // of each thread
};

}  // namespace volley::core
