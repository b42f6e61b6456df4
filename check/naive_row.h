// SPDX-License-Identifier: BSD-3-Clause
//
// What the naive programs share: one query head of one sequence in fp32, and the logits of a row.
// The loops run along keys so that compilers vectorise them without reordering a sum.
#pragma once

#include <limits>
#include <vector>

#include "case.h"

namespace volley::check {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct NaiveHead {
  int64_t n = 0;  // sequence
  int64_t h = 0;
  Span queries;
  Span keys;
  std::vector<float> q;  // (sq, d)
  std::vector<float> k;  // (d, sk): transposed
  std::vector<float> v;  // (sk, dv)
};

NaiveHead load_head(const Instance& instance, int64_t n, int64_t h);

struct NaiveRow {
  std::vector<float> logit;  // -inf where a key is not seen
  std::vector<float> slope;  // d logit / d (scale * q.k): 1 but for softcap
  std::vector<float> keep;   // 1, or what dropout multiplies the weight by
  double max_logit = 0;      // of |scaled logit| over the keys seen
};
NaiveRow naive_row(const Instance& instance, const NaiveHead& head, int64_t i);

// The contract's generator, written once more so that it can disagree with the library's: what
// multiplies the weights of query i, over all keys.
std::vector<float> naive_keep(const Instance& instance, const NaiveHead& head, int64_t i);

float naive_scale(const Case& c);
float sink_of(const Instance& instance, const NaiveHead& head);  // -inf: there is none
float round_to(int32_t dtype, float value);

}  // namespace volley::check
