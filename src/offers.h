// SPDX-License-Identifier: BSD-3-Clause
//
// What a problem needs beyond plain attention, and which backend offers it: one table that the
// plan, the docs and the tests share. A backend's own geometry rules (strides, alignment, tiles)
// are in its file; this table is about features and dtypes. Read plan.h next.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "problem.h"

namespace volley::core {

enum Feature : uint32_t {
  kCausal = 1u << 0,  // right = 0, no left bound
  kWindow = 1u << 1,  // any other bounded band
  kSoftcap = 1u << 2,
  kSink = 1u << 3,
  kVarlen = 1u << 4,
  kUsedLengths = 1u << 5,
  kPaged = 1u << 6,
  kBias = 1u << 7,
  kAlibi = 1u << 8,
  kMask = 1u << 9,
  kDropout = 1u << 10,
  kDescale = 1u << 11,
  kSplits = 1u << 12,  // num_splits > 1 or a split_size
  kDeterministic = 1u << 13,
  kBatchInvariant = 1u << 14,
  kPrecision = 1u << 15,     // precision other than the inputs'
  kFastAccuracy = 1u << 16,  // accuracy = fast
  kF32Output = 1u << 17,     // o (or a gradient) in f32 beside 16-bit or fp8 inputs
  kF64Output = 1u << 18,
  kAccumulate = 1u << 19,
  kDifferentDv = 1u << 20,       // dv != d
  kNonPositiveScale = 1u << 21,  // scale <= 0
  kAnyStride = 1u << 22,         // a last dim of q, k, v, o or a gradient that is not contiguous
  kLseGradient = 1u << 23,
  kFeatureCount = 24
};

// The features that a problem needs.
uint32_t features_of(const Problem& problem);

struct Offer {
  int32_t backend;                  // VOLLEY_BACKEND_*
  int32_t op;                       // VOLLEY_OP_*
  std::span<const int32_t> dtypes;  // of q, k, v
  uint32_t features;
  int64_t max_head_dim;  // of d and dv
};

std::span<const Offer> offers();

// The names of a set, "causal, softcap"; "none" when empty.
std::string feature_names(uint32_t features);

// OK, or NOT_OFFERED with the reason of the first thing that `backend` lacks.
Status check_offer(const Problem& problem, int32_t backend);

}  // namespace volley::core
