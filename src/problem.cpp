// SPDX-License-Identifier: BSD-3-Clause
//
// make_problem: reads a volley_problem in four steps: tensors, options, sizes, and what the tensors
// must be to each other. Each check answers with one sentence: argument, found, wanted. Read
// problem_tensor.cpp for what a single tensor must be.
#include "problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "problem_shapes.h"
#include "problem_tensor.h"

namespace volley::core {
namespace {

// Copies a caller's struct of any age into today's: what it lacks keeps the defaults, what it has
// beyond must be zero.
Status read_struct(const volley_problem& in, volley_problem* out) {
  volley_problem_init(out);
  const uint64_t known = sizeof *out;
  // A size that ends inside a pointer would make a wild one of its first half.
  const bool whole = in.size % sizeof(void*) == 0;
  if (!whole || in.size < offsetof(volley_problem, q) || in.size > 64 * known) {
    return invalid(VOLLEY_REASON_STRUCT,
                   "problem.size is {}, wanted {}: fill the struct with volley_problem_init first",
                   in.size, known);
  }
  const char* bytes = reinterpret_cast<const char*>(&in);
  for (uint64_t i = known; i < in.size; ++i) {
    if (bytes[i] != 0) {
      return invalid(VOLLEY_REASON_STRUCT,
                     "problem uses a field at byte {} that this library (ABI {}) does not know", i,
                     VOLLEY_ABI_VERSION);
    }
  }
  std::memcpy(out, &in, std::min(in.size, known));
  return {};
}

Status read_tensors(const volley_problem& in, Problem* out) {
  const char* first = nullptr;
  for (const RoleInfo& role : kRoles) {
    const volley_tensor* tensor = nullptr;
    std::memcpy(&tensor, reinterpret_cast<const char*>(&in) + role.problem_offset, sizeof tensor);
    if (tensor == nullptr) continue;
    VOLLEY_TRY(read_tensor(role.name, *tensor, &(*out)[role.role]));
    if (tensor->device_type != VOLLEY_DEVICE_CPU && tensor->device_type != VOLLEY_DEVICE_CUDA) {
      return invalid(VOLLEY_REASON_DEVICE, "{}.device_type is {}, wanted 1 (cpu) or 2 (cuda)",
                     role.name, tensor->device_type);
    }
    if (first == nullptr) {
      first = role.name;
      out->device_type = tensor->device_type;
      out->device_id = tensor->device_id;
    } else if (tensor->device_type != out->device_type || tensor->device_id != out->device_id) {
      return invalid(VOLLEY_REASON_DEVICE,
                     "{} is on device {}:{}, but {} is on {}:{}: all tensors must be on one device",
                     role.name, tensor->device_type, tensor->device_id, first, out->device_type,
                     out->device_id);
    }
  }
  return {};
}

Status check_flag(const char* name, int32_t value, int32_t highest) {
  if (value >= 0 && value <= highest) return {};
  return invalid(VOLLEY_REASON_STRUCT, "{} is {}, wanted 0 to {}", name, value, highest);
}

Status check_at_least(const char* name, int64_t value, int64_t lowest) {
  if (value >= lowest) return {};
  return invalid(VOLLEY_REASON_RANGE, "{} is {}, wanted {} or more", name, value, lowest);
}

Status read_flags(const volley_problem& in, Problem* out) {
  VOLLEY_TRY(check_flag("op", in.op, VOLLEY_OP_BACKWARD));
  VOLLEY_TRY(check_flag("backend", in.backend, VOLLEY_BACKEND_SM90));
  VOLLEY_TRY(check_flag("causal", in.causal, 1));
  VOLLEY_TRY(check_flag("mask_alignment", in.mask_alignment, VOLLEY_ALIGN_EXPLICIT));
  VOLLEY_TRY(check_flag("precision", in.precision, VOLLEY_PRECISION_INT8_QK));
  VOLLEY_TRY(check_flag("accuracy", in.accuracy, VOLLEY_ACCURACY_FAST));
  VOLLEY_TRY(check_flag("deterministic", in.deterministic, 1));
  VOLLEY_TRY(check_flag("batch_invariant", in.batch_invariant, 1));
  VOLLEY_TRY(check_flag("accumulate_grads", in.accumulate_grads, 1));
  VOLLEY_TRY(check_flag("reserved", in.reserved, 0));
  VOLLEY_TRY(check_at_least("num_splits", in.num_splits, 0));
  VOLLEY_TRY(check_at_least("split_size", in.split_size, 0));
  VOLLEY_TRY(check_at_least("max_sms", in.max_sms, 0));
  VOLLEY_TRY(check_at_least("num_threads", in.num_threads, 0));
  VOLLEY_TRY(check_at_least("max_seqlen_q", in.max_seqlen_q, 0));
  VOLLEY_TRY(check_at_least("max_seqlen_k", in.max_seqlen_k, 0));
  VOLLEY_TRY(check_at_least("q_scale_block", in.q_scale_block, 1));
  VOLLEY_TRY(check_at_least("k_scale_block", in.k_scale_block, 1));
  VOLLEY_TRY(check_at_least("v_scale_block", in.v_scale_block, 1));
  if (in.score_hook != 0 || in.mask_hook != 0) {
    return not_offered(VOLLEY_REASON_HOOK, "{} is {}: score and mask hooks are not offered yet",
                       in.score_hook ? "score_hook" : "mask_hook",
                       in.score_hook ? in.score_hook : in.mask_hook);
  }
  if (in.accumulate_grads && in.op == VOLLEY_OP_FORWARD) {
    return invalid(VOLLEY_REASON_OPTION, "accumulate_grads is 1, but op is forward");
  }
  if (in.num_splits > 0 && in.split_size > 0) {
    return invalid(VOLLEY_REASON_OPTION,
                   "num_splits is {} and split_size is {}: at most one may be given", in.num_splits,
                   in.split_size);
  }
  out->op = in.op;
  out->backend = in.backend;
  out->precision = in.precision;
  out->accuracy = in.accuracy;
  out->deterministic = in.deterministic != 0;
  out->batch_invariant = in.batch_invariant != 0;
  out->accumulate_grads = in.accumulate_grads != 0;
  out->num_splits = in.num_splits;
  out->split_size = in.split_size;
  out->max_sms = in.max_sms;
  out->num_threads = in.num_threads;
  out->max_sq = in.max_seqlen_q;  // bounds for now; problem_shapes.cpp resolves them
  out->max_sk = in.max_seqlen_k;
  out->scale_block = {in.q_scale_block, in.k_scale_block, in.v_scale_block};
  return {};
}

Status read_numbers(const volley_problem& in, Problem* out) {
  if (std::isinf(in.scale)) {
    return invalid(VOLLEY_REASON_RANGE, "scale is {}, wanted a finite number or NaN for 1/sqrt(d)",
                   in.scale);
  }
  if (!(in.softcap >= 0) || std::isinf(in.softcap)) {
    return invalid(VOLLEY_REASON_RANGE, "softcap is {}, wanted a finite number >= 0", in.softcap);
  }
  if (!(in.dropout_p >= 0 && in.dropout_p < 1)) {
    return invalid(VOLLEY_REASON_RANGE, "dropout_p is {}, wanted a number in [0, 1)", in.dropout_p);
  }
  out->scale = in.scale;
  out->softcap = in.softcap;
  out->dropout_p = in.dropout_p;
  return {};
}

Status read_band(const volley_problem& in, Band* out) {
  constexpr int64_t kLargestOffset = int64_t{1} << 60;
  for (const auto& [name, value] :
       {std::pair{"window_left", in.window_left}, std::pair{"window_right", in.window_right}}) {
    if (value < -1) {
      return invalid(VOLLEY_REASON_WINDOW, "{} is {}, wanted -1 (open) or 0 and more", name, value);
    }
  }
  if (in.mask_alignment != VOLLEY_ALIGN_EXPLICIT && in.mask_offset != 0) {
    return invalid(VOLLEY_REASON_OPTION,
                   "mask_offset is {}, but mask_alignment is not explicit: the offset would be "
                   "ignored",
                   in.mask_offset);
  }
  if (in.mask_offset > kLargestOffset || in.mask_offset < -kLargestOffset) {
    return invalid(VOLLEY_REASON_RANGE, "mask_offset is {}, wanted at most 2^60 in magnitude",
                   in.mask_offset);
  }
  out->left = in.window_left;
  out->right = in.causal ? 0 : in.window_right;
  out->alignment = in.mask_alignment;
  out->explicit_offset = in.mask_offset;
  // Nothing but a band and ALiBi looks at the offset.
  if (out->open() && in.alibi_slopes == nullptr) *out = Band{};
  return {};
}

// Which tensors must and must not be there, before their shapes are looked at.
Status check_presence(const Problem& problem) {
  const bool backward = problem.op == VOLLEY_OP_BACKWARD;
  for (const Role role : {Role::kQ, Role::kK, Role::kV, Role::kO}) {
    if (!problem.has(role)) return invalid(VOLLEY_REASON_NULL, "{} is NULL", info(role).name);
  }
  for (const Role role : {Role::kLse, Role::kDout, Role::kDq, Role::kDk, Role::kDv}) {
    if (backward && !problem.has(role)) {
      return invalid(VOLLEY_REASON_NULL, "{} is NULL, the backward needs it", info(role).name);
    }
  }
  for (const RoleInfo& role : kRoles) {
    const bool backward_only =
        role.written == Written::kBackward || role.role == Role::kDout || role.role == Role::kDlse;
    if (!backward && backward_only && problem.has(role.role)) {
      return invalid(VOLLEY_REASON_OPTION, "{} is given, but op is forward", role.name);
    }
  }
  const auto needs = [&](Role role, Role other) {
    if (!problem.has(role) || problem.has(other)) return Status{};
    return invalid(VOLLEY_REASON_NULL, "{} is given, but {} is NULL", info(role).name,
                   info(other).name);
  };
  VOLLEY_TRY(needs(Role::kPageTable, Role::kSequsedK));
  VOLLEY_TRY(needs(Role::kDbias, Role::kBias));
  VOLLEY_TRY(needs(Role::kDsink, Role::kSink));
  VOLLEY_TRY(needs(Role::kDropoutOffset, Role::kDropoutSeed));
  if (problem.dropout_p > 0 && !problem.has(Role::kDropoutSeed)) {
    return invalid(VOLLEY_REASON_NULL, "dropout_p is {}, but dropout_seed is NULL",
                   problem.dropout_p);
  }
  if (problem.has(Role::kPageTable) && problem.has(Role::kCuSeqlensK)) {
    return invalid(VOLLEY_REASON_OPTION,
                   "page_table and cu_seqlens_k are both given: paged keys are not packed");
  }
  return {};
}

}  // namespace

Status make_problem(const volley_problem& in, Problem* out) {
  *out = Problem{};
  volley_problem full;
  VOLLEY_TRY(read_struct(in, &full));
  VOLLEY_TRY(read_tensors(full, out));
  VOLLEY_TRY(read_flags(full, out));
  VOLLEY_TRY(read_numbers(full, out));
  VOLLEY_TRY(read_band(full, &out->band));
  VOLLEY_TRY(check_presence(*out));
  VOLLEY_TRY(resolve_sizes(out));
  VOLLEY_TRY(normalise_operands(out));
  VOLLEY_TRY(normalise_extras(out));
  VOLLEY_TRY(normalise_gradients(out));
  VOLLEY_TRY(check_outputs(*out));
  if (std::isnan(out->scale)) out->scale = 1 / std::sqrt(static_cast<double>(out->d));
  return {};
}

}  // namespace volley::core
