// SPDX-License-Identifier: BSD-3-Clause
//
// The tensors of an attention call as a table: one row per pointer of volley_problem, with its
// name and its place in volley_problem and volley_buffers. Loops over tensors use this table, so
// that a new tensor is one new row. Read problem.h next.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "volley/volley.h"

namespace volley::core {

enum class Role : uint8_t {
  kQ,
  kK,
  kV,
  kO,
  kLse,
  kCuSeqlensQ,
  kCuSeqlensK,
  kSequsedQ,
  kSequsedK,
  kPageTable,
  kSink,
  kBias,
  kAlibiSlopes,
  kMask,
  kQDescale,
  kKDescale,
  kVDescale,
  kDropoutSeed,
  kDropoutOffset,
  kDout,
  kDlse,
  kDq,
  kDk,
  kDv,
  kDbias,
  kDsink,
  kCount
};

inline constexpr size_t kRoleCount = static_cast<size_t>(Role::kCount);

// When a tensor is written: never, by the forward, or by the backward.
enum class Written : uint8_t { kNever, kForward, kBackward };

struct RoleInfo {
  Role role;
  const char* name;
  size_t problem_offset;  // of the const volley_tensor* in volley_problem
  size_t buffers_offset;  // of the void* in volley_buffers
  Written written;
};

inline constexpr std::array<RoleInfo, kRoleCount> kRoles = {{
#define VOLLEY_ROLE(role, field, written)                                                 \
  {                                                                                       \
    Role::role, #field, offsetof(volley_problem, field), offsetof(volley_buffers, field), \
        Written::written                                                                  \
  }
    VOLLEY_ROLE(kQ, q, kNever),
    VOLLEY_ROLE(kK, k, kNever),
    VOLLEY_ROLE(kV, v, kNever),
    VOLLEY_ROLE(kO, o, kForward),
    VOLLEY_ROLE(kLse, lse, kForward),
    VOLLEY_ROLE(kCuSeqlensQ, cu_seqlens_q, kNever),
    VOLLEY_ROLE(kCuSeqlensK, cu_seqlens_k, kNever),
    VOLLEY_ROLE(kSequsedQ, seqused_q, kNever),
    VOLLEY_ROLE(kSequsedK, seqused_k, kNever),
    VOLLEY_ROLE(kPageTable, page_table, kNever),
    VOLLEY_ROLE(kSink, sink, kNever),
    VOLLEY_ROLE(kBias, bias, kNever),
    VOLLEY_ROLE(kAlibiSlopes, alibi_slopes, kNever),
    VOLLEY_ROLE(kMask, mask, kNever),
    VOLLEY_ROLE(kQDescale, q_descale, kNever),
    VOLLEY_ROLE(kKDescale, k_descale, kNever),
    VOLLEY_ROLE(kVDescale, v_descale, kNever),
    VOLLEY_ROLE(kDropoutSeed, dropout_seed, kNever),
    VOLLEY_ROLE(kDropoutOffset, dropout_offset, kNever),
    VOLLEY_ROLE(kDout, dout, kNever),
    VOLLEY_ROLE(kDlse, dlse, kNever),
    VOLLEY_ROLE(kDq, dq, kBackward),
    VOLLEY_ROLE(kDk, dk, kBackward),
    VOLLEY_ROLE(kDv, dv, kBackward),
    VOLLEY_ROLE(kDbias, dbias, kBackward),
    VOLLEY_ROLE(kDsink, dsink, kBackward),
#undef VOLLEY_ROLE
}};

inline constexpr const RoleInfo& info(Role role) { return kRoles[static_cast<size_t>(role)]; }

}  // namespace volley::core
