// SPDX-License-Identifier: BSD-3-Clause
//
// A Case is one attention call as data: shapes, lengths, mask, options, layout, distribution of
// values, seed. build() makes an Instance of it: tensors with the inputs filled and everything else
// poisoned. Read runner.h next.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "offers.h"
#include "roles.h"
#include "tensor.h"

namespace volley::check {

using core::Role;

// How a (b, s, h, d) tensor lies in memory.
enum class Layout {
  kRows,            // contiguous
  kHeadsFirst,      // (b, h, s, d) seen through a transpose
  kFused,           // a slice of a buffer that holds q, k and v of a token, in an order by the seed
  kEverySecondRow,  // of a longer buffer
  kOddRows,         // a row stride that is no multiple of anything
  kStridedLast,     // every second element
  kReversed,        // rows backwards in memory: a negative stride
  kUnaligned,       // contiguous, one element past an aligned address
  kExpanded,        // an input's only: one head of one sequence for all of them, by strides of 0
  kCount,
  kOfAnyValues = kExpanded  // those before it can hold any
};
const char* layout_name(Layout layout);

// What the operands hold; the logits of kNormal have standard deviation Case::logit_std.
enum class Values {
  kNormal,
  kUniformWeights,  // k = 0: every visible key weighs the same
  kHuge,            // logits of +-5e4, the sign drawn for each key
  kNone,            // nothing: the caller fills q, k and v
};

struct Case {
  std::string name;
  int32_t op = VOLLEY_OP_FORWARD;
  int32_t dtype = VOLLEY_BF16;
  int32_t out_dtype = 0;  // 0: the inputs', bf16 for e4m3

  int64_t b = 1;
  int64_t sq = 1;  // rows of a sequence; packed: of the whole tensor
  int64_t sk = 1;
  int64_t hq = 1;
  int64_t hk = 1;
  int64_t d = 64;
  int64_t dv = 64;

  std::vector<int32_t> cu_q, cu_k;      // b + 1 each, or empty: dense
  std::vector<int32_t> used_q, used_k;  // b each, or empty: all rows count
  int64_t page = 0;                     // rows of a page; 0: not paged (else used_k is needed)

  bool causal = false;
  int64_t left = -1;
  int64_t right = -1;
  int32_t alignment = VOLLEY_ALIGN_BOTTOM_RIGHT;
  int64_t offset = 0;  // of VOLLEY_ALIGN_EXPLICIT

  double scale = NAN;  // NaN: 1/sqrt(d)
  double softcap = 0;
  double dropout_p = 0;
  bool sink = false;
  bool alibi = false;
  bool descale = false;
  int32_t scale_dtype = VOLLEY_F32;
  int32_t scale_block = 128;
  bool lse = true;
  bool lse_gradient = false;
  bool deterministic = false;
  bool batch_invariant = false;
  bool accumulate = false;         // the backward adds to what the gradients hold: start_values()
  bool optional_gradients = true;  // dbias and dsink, where there is a bias or a sink
  int32_t grad_dtype = 0;          // of dq, dk, dv and dbias; 0: the inputs'
  int32_t bias_dtype = VOLLEY_F32;
  std::string bias;             // the axes along which it varies, of "bhqk"; empty: none
  std::string mask;             // the same
  bool expanded_pairs = false;  // these have their full size along the other axes, by strides of 0

  Layout q_layout = Layout::kRows;
  Layout k_layout = Layout::kRows;
  Layout v_layout = Layout::kRows;
  Layout o_layout = Layout::kRows;
  Values values = Values::kNormal;
  double logit_std = 1;
  uint64_t seed = 1;
  int64_t first = 0;  // sequence n draws the values of sequence first + n

  void set_layout(Layout layout) { q_layout = k_layout = v_layout = o_layout = layout; }
  void set_heads(int64_t query, int64_t key) { hq = query, hk = key; }
  int64_t group() const { return hq / hk; }
};

// One sequence of a case: where its rows are and how many count.
struct Span {
  int64_t batch = 0;  // index in the batch axis of a dense tensor
  int64_t begin = 0;  // first row in a packed one
  int64_t owned = 0;  // rows that belong to the sequence
  int64_t used = 0;   // of which count
};
Span query_span(const Case& c, int64_t n);
Span key_span(const Case& c, int64_t n);  // paged: batch and begin mean nothing

// The rule of the contract, written out once more so that it can disagree with the library.
bool band_sees(const Case& c, int64_t sq, int64_t sk, int64_t i, int64_t j);

// An index of up to four axes, without an allocation.
struct Index {
  std::array<int64_t, 4> axes{};
  size_t rank = 0;

  operator std::span<const int64_t>() const { return {axes.data(), rank}; }
};

struct Instance {
  Case c;
  std::array<HostTensor, core::kRoleCount> tensors;
  volley_problem options;  // without tensors

  HostTensor& operator[](Role role) { return tensors[static_cast<size_t>(role)]; }
  const HostTensor& operator[](Role role) const { return tensors[static_cast<size_t>(role)]; }

  // options with the tensors; valid while this lives and stays where it is.
  volley_problem problem() const;
  bool writes(Role role) const;  // is it an output of this call?
  Instance clone() const;        // with memory of its own

  // q[n][i][h][x] of sequence n, whatever the packing; role is one of q, k, v, o and gradients.
  Index index(Role role, int64_t n, int64_t i, int64_t h, int64_t x) const;
  double lse_at(int64_t n, int64_t h, int64_t i) const;
};

Instance build(const Case& c);

// What a gradient holds before a backward that accumulates: eighths, exact in every dtype.
void start_values(const Case& c, Role role, HostTensor* gradient);

std::string describe(const Case& c);  // one line that says what is special about it

// What random_case may draw. Empty head_dims: anything from 1 to max_head_dim.
struct Scope {
  int32_t op = VOLLEY_OP_FORWARD;
  std::vector<int32_t> dtypes{VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16};
  uint32_t features = 0;  // core::Feature bits
  std::vector<int64_t> head_dims;
  int64_t max_head_dim = 256;
  std::vector<Layout> layouts{Layout::kRows};
  int64_t max_pairs = 40000;  // bounds b * hq * sq * sk
};

// What a backend offers according to the library's own table.
Scope scope_of(int32_t backend, int32_t op = VOLLEY_OP_FORWARD);

Case random_case(const Scope& scope, uint64_t seed);

}  // namespace volley::check
