// SPDX-License-Identifier: BSD-3-Clause
//
// Problem: what is asked, validated and normalised. The one place where input is judged; everything
// behind it (plan.h, the backends) may trust it. It judges geometry only: contents of buffers are
// read by nobody here. Pure C++, no CUDA header. Read plan.h next.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "roles.h"
#include "status.h"
#include "volley/volley.h"

namespace volley::core {

// A tensor of a Problem, in the normal form of its role (see Problem). Strides in elements; a dim
// of size 1 has stride 0, a broadcast dim too.
struct Tensor {
  bool present = false;
  int32_t dtype = 0;
  int32_t ndim = 0;
  std::array<int64_t, 5> shape{};
  std::array<int64_t, 5> stride{};
  int64_t alignment = 0;  // of the base address, bytes, a power of two <= 128

  bool empty() const {
    const auto end = shape.begin() + ndim;
    return std::find(shape.begin(), end, 0) != end;
  }
  bool operator==(const Tensor&) const = default;
};

// Query i of a sequence sees key j iff -left <= j - i - offset <= right; -1 is open.
struct Band {
  int64_t left = -1;
  int64_t right = -1;                             // "causal" is folded in
  int32_t alignment = VOLLEY_ALIGN_BOTTOM_RIGHT;  // what offset is: see volley.h
  int64_t explicit_offset = 0;

  bool open() const { return left < 0 && right < 0; }
  int64_t offset(int64_t sq, int64_t sk) const {
    if (alignment == VOLLEY_ALIGN_BOTTOM_RIGHT) return sk - sq;
    return alignment == VOLLEY_ALIGN_TOP_LEFT ? 0 : explicit_offset;
  }
  bool operator==(const Band&) const = default;
};

// Normal forms of `tensors`, whatever the caller's ndim was:
//   q, o, dout, dq        (b, sq, hq, d|dv); packed: (1, total_q, hq, d|dv)
//   k, v, dk, dv          (b, sk, hk, d|dv); packed: (1, total_k, ...); paged: (pages, page, ...)
//   lse, dlse             (b, hq, sq); packed: (1, hq, total_q)
//   bias, mask, dbias     (b, hq, max_sq, max_sk), stride 0 where it broadcasts (dbias: shape 1)
//   alibi_slopes          (b, hq)
//   descales              (b | pages, hq | hk, blocks)
//   everything else       as given
struct Problem {
  int32_t op = VOLLEY_OP_FORWARD;
  int32_t backend = VOLLEY_BACKEND_AUTO;
  int32_t device_type = VOLLEY_DEVICE_CPU;
  int32_t device_id = 0;

  int64_t b = 0;          // sequences
  int64_t hq = 0;         // query heads
  int64_t hk = 0;         // key heads; hq % hk == 0
  int64_t d = 0;          // head dim of q and k
  int64_t dv = 0;         // head dim of v and o
  int64_t max_sq = 0;     // upper bound of a sequence's query length
  int64_t max_sk = 0;     // ... of its key length (paged: max_pages * page)
  int64_t page = 0;       // rows of a page; 0: not paged
  bool packed_q = false;  // cu_seqlens_q given: q is (total_q, hq, d)
  bool packed_k = false;

  double scale = 0;  // resolved, finite
  double softcap = 0;
  double dropout_p = 0;
  Band band;
  std::array<int32_t, 3> scale_block{128, 128, 128};  // rows a descale block of q, k, v
  int32_t precision = VOLLEY_PRECISION_DEFAULT;
  int32_t accuracy = VOLLEY_ACCURACY_ACCURATE;
  bool deterministic = false;
  bool batch_invariant = false;
  bool accumulate_grads = false;
  int32_t num_splits = 0;
  int64_t split_size = 0;
  int32_t max_sms = 0;
  int32_t num_threads = 0;

  std::array<Tensor, kRoleCount> tensors;

  const Tensor& operator[](Role role) const { return tensors[static_cast<size_t>(role)]; }
  Tensor& operator[](Role role) { return tensors[static_cast<size_t>(role)]; }
  bool has(Role role) const { return (*this)[role].present; }
  int64_t group() const { return hk == 0 ? 1 : hq / hk; }  // query heads per key head

  bool writes(const RoleInfo& role) const {
    const auto when = op == VOLLEY_OP_BACKWARD ? Written::kBackward : Written::kForward;
    return role.written == when && has(role.role);
  }
  // Sizes of 0 left no output an element: then b and the heads are bounded by no memory either.
  bool writes_nothing() const {
    return std::none_of(kRoles.begin(), kRoles.end(), [&](const RoleInfo& role) {
      return writes(role) && !(*this)[role.role].empty();
    });
  }

  bool operator==(const Problem&) const = default;
};

// Reads `in`, with its tensors, into `out`. On failure `out` is unspecified.
Status make_problem(const volley_problem& in, Problem* out);

}  // namespace volley::core
