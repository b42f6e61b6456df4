// SPDX-License-Identifier: BSD-3-Clause
//
// The heart of the contract as code: which keys a query row sees, with which logit, and what the
// softmax over them is. Forward (reference.cpp) and backward (reference_backward.cpp) are sums over
// what is answered here. All arithmetic is float64; inputs are converted once, row by row.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "backend.h"
#include "cpu/view.h"
#include "dropout.h"
#include "problem.h"
#include "sequence.h"
#include "status.h"

namespace volley::core {

inline constexpr double kUnseen = -std::numeric_limits<double>::infinity();

// A matrix of doubles whose rows are contiguous.
class Rows {
 public:
  Rows(int64_t rows, int64_t width) : width_(width), values_(static_cast<size_t>(rows * width)) {}

  double* operator[](int64_t row) { return values_.data() + row * width_; }
  const double* operator[](int64_t row) const { return values_.data() + row * width_; }
  int64_t width() const { return width_; }

 private:
  int64_t width_;
  std::vector<double> values_;
};

double dot(const double* a, const double* b, int64_t n);

// y += factor * x
void add_scaled(double factor, const double* x, double* y, int64_t n);

// One query head of one sequence of a run.
class Head {
 public:
  Head(const Problem& problem, const Buffers& buffers, int64_t n, int64_t h);

  int64_t n() const { return n_; }
  int64_t h() const { return h_; }
  int64_t key_head() const { return h_ / problem_->group(); }
  const Sequence& sequence() const { return sequence_; }

  // One row of q or dout (of this head), or of k or v (of its key head), descaled.
  void load_row(Role role, int64_t row, double* out) const;

  // The page that holds key `row`, where keys are paged.
  int64_t page_of(int64_t row) const;

  // The keys [first, last) outside of which the band hides everything from query row i.
  int64_t first_key(int64_t i) const { return sequence_.first_key(problem_->band, i); }
  int64_t last_key(int64_t i) const { return sequence_.last_key(problem_->band, i); }

  // Band, mask and bias let query i see key j. Decided before q.k, so that nothing of a key that
  // is not seen is ever used.
  bool sees(int64_t i, int64_t j) const;

  // softcap(scale * qk) + bias - slope * |i + offset - j|, for a key that is seen.
  double logit(int64_t i, int64_t j, double qk) const;

  // d logit / d qk.
  double logit_slope(double qk) const;

  // What dropout multiplies the weight by: 0, 1 / (1 - p), or 1 without dropout.
  double keep(int64_t i, int64_t j) const;

  // The logit that joins each row's sum; kUnseen where there is none.
  double sink() const { return sink_; }

 private:
  double descale(Role role, int64_t row) const;

  const Problem* problem_;
  const Buffers* buffers_;
  int64_t n_;
  int64_t h_;
  Sequence sequence_;
  View bias_;
  View mask_;
  double alibi_slope_ = 0;
  double sink_ = kUnseen;
  PhiloxKey dropout_key_{};
};

// The query heads of one key head, into `out`, which has the capacity.
void heads_of(const Problem& problem, const Buffers& buffers, int64_t n, int64_t key_head,
              std::vector<Head>* out);

// Max and sum of exp(logit - max) over the keys that a row sees, and the sink.
struct Softmax {
  double max = kUnseen;
  double sum = 0;

  double lse() const;  // -inf when nothing was seen
  double weight(double logit) const;
};

// Fills qk and logits, over the keys that the band grants to query row i: q.k and the logit, which
// is kUnseen where mask or bias say so.
Softmax softmax_of_row(const Head& head, int64_t i, const double* q, const Rows& k, double* qk,
                       double* logits);

}  // namespace volley::core
