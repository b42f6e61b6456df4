// SPDX-License-Identifier: BSD-3-Clause
#include "problem_shapes.h"

#include <algorithm>
#include <tuple>

#include "dtype.h"
#include "problem_tensor.h"

namespace volley::core {
namespace {

constexpr int64_t kLargestHeadDim = 1024;

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

// The upper bound of a length: the caller's, where it makes sense, else the capacity.
Status resolve_max(const char* name, bool bounded, int64_t capacity, int64_t* max) {
  if (*max == 0 || capacity == 0) {
    *max = capacity;
  } else if (!bounded && *max != capacity) {
    return invalid(VOLLEY_REASON_OPTION,
                   "{} is {}, but the tensors are dense with length {}: leave it 0", name, *max,
                   capacity);
  }
  *max = std::min(*max, capacity);
  return {};
}

Status resolve_batch(Problem* problem) {
  const auto sequences = [&](Role cu, Role dense, bool packed) {
    return packed ? (*problem)[cu].shape[0] - 1 : (*problem)[dense].shape[0];
  };
  const Role keys = problem->page > 0 ? Role::kPageTable : Role::kK;
  problem->b = sequences(Role::kCuSeqlensQ, Role::kQ, problem->packed_q);
  const int64_t b_k = sequences(Role::kCuSeqlensK, keys, problem->packed_k);
  if (problem->b != b_k) {
    return invalid(VOLLEY_REASON_SHAPE, "{} says b = {}, but {} says b = {}",
                   problem->packed_q ? "cu_seqlens_q" : "q", problem->b,
                   problem->packed_k ? "cu_seqlens_k" : info(keys).name, b_k);
  }
  return {};
}

// What counts rows, tiles or tasks behind the Problem stays inside 64 bits. The tensors alone do
// not say so: one with a dim of 0 bounds nothing, and packed sequences take b and hq from two of
// them.
Status check_counts(const Problem& p) {
  constexpr int64_t kMost = int64_t{1} << 60;
  const auto at_least_1 = [](int64_t size) { return std::max<int64_t>(size, 1); };
  for (const auto& [side, heads, rows] :
       {std::tuple{"q", p.hq, p.max_sq}, std::tuple{"k", p.hk, p.max_sk}}) {
    if (at_least_1(rows) <= kMost / at_least_1(p.b) / at_least_1(heads)) continue;
    return invalid(VOLLEY_REASON_SHAPE,
                   "b is {} and {} has {} heads and sequences of up to {} rows: the product is "
                   "more than 2^60",
                   p.b, side, heads, rows);
  }
  return {};
}

// (total, h, d) becomes (1, total, h, d).
void unpack(Tensor* tensor, bool packed) {
  if (tensor->present && packed) insert_axis(tensor, 0, 1);
}

Status expect_rows(Problem* problem, Role role, Role like, int64_t channels) {
  Tensor& tensor = (*problem)[role];
  if (!tensor.present) return {};
  const Tensor& model = (*problem)[like];  // in normal form
  const bool packed = like == Role::kQ ? problem->packed_q : problem->packed_k;
  const bool paged = like == Role::kK && problem->page > 0;
  if (packed) {
    VOLLEY_TRY(
        expect_shape(info(role).name, tensor, {model.shape[1], model.shape[2], channels},
                     like == Role::kQ ? "(total_q, hq, channels)" : "(total_k, hk, channels)"));
  } else {
    VOLLEY_TRY(expect_shape(info(role).name, tensor,
                            {model.shape[0], model.shape[1], model.shape[2], channels},
                            like == Role::kQ ? "(b, sq, hq, channels)"
                            : paged          ? "(pages, page, hk, channels)"
                                             : "(b, sk, hk, channels)"));
  }
  unpack(&tensor, packed);
  return {};
}

Status expect_lse(Problem* problem, Role role) {
  Tensor& tensor = (*problem)[role];
  if (!tensor.present) return {};
  VOLLEY_TRY(expect_dtype(info(role).name, tensor, {VOLLEY_F32, VOLLEY_F64}));
  const int64_t rows = (*problem)[Role::kQ].shape[1];
  if (problem->packed_q) {
    VOLLEY_TRY(expect_shape(info(role).name, tensor, {problem->hq, rows}, "(hq, total_q)"));
    insert_axis(&tensor, 0, 1);
    return {};
  }
  return expect_shape(info(role).name, tensor, {problem->b, problem->hq, rows}, "(b, hq, sq)");
}

Status expect_vector(Problem* problem, Role role, int64_t size, const char* axes) {
  const Tensor& tensor = (*problem)[role];
  if (!tensor.present) return {};
  VOLLEY_TRY(expect_dtype(info(role).name, tensor, {VOLLEY_I32}));
  VOLLEY_TRY(expect_shape(info(role).name, tensor, {size}, axes));
  if (size <= 1 || tensor.stride[0] == 1) return {};
  return invalid(VOLLEY_REASON_STRIDE, "{} has stride {}, wanted 1", info(role).name,
                 tensor.stride[0]);
}

Status expect_scalar(Problem* problem, Role role) {
  Tensor& tensor = (*problem)[role];
  if (!tensor.present) return {};
  VOLLEY_TRY(expect_dtype(info(role).name, tensor, {VOLLEY_I64}));
  if (tensor.ndim == 0) return {};
  return expect_shape(info(role).name, tensor, {1}, "(1)");
}

Status normalise_descale(Problem* problem, Role role, int which) {
  Tensor& tensor = (*problem)[role];
  if (!tensor.present) return {};
  const char* name = info(role).name;
  if ((*problem)[Role::kQ].dtype != VOLLEY_E4M3) {
    return invalid(VOLLEY_REASON_DTYPE, "{} is given, but q, k and v are {}: descales need e4m3",
                   name, volley_dtype_name((*problem)[Role::kQ].dtype));
  }
  VOLLEY_TRY(expect_dtype(name, tensor, {VOLLEY_F32, VOLLEY_E8M0}));
  const int64_t block = problem->scale_block[which];
  if (role == Role::kQDescale) {
    const bool per_key_head = tensor.ndim == 3 && tensor.shape[1] == problem->hk;
    return broadcast_to(
        name, &tensor,
        {problem->b, per_key_head ? problem->hk : problem->hq, ceil_div(problem->max_sq, block)},
        per_key_head ? "(b, hk, blocks)" : "(b, hq, blocks)");
  }
  if (problem->page > 0) {
    return broadcast_to(
        name, &tensor, {(*problem)[Role::kK].shape[0], problem->hk, ceil_div(problem->page, block)},
        "(pages, hk, blocks)");
  }
  return broadcast_to(name, &tensor, {problem->b, problem->hk, ceil_div(problem->max_sk, block)},
                      "(b, hk, blocks)");
}

}  // namespace

Status resolve_sizes(Problem* problem) {
  Problem& p = *problem;
  p.packed_q = p.has(Role::kCuSeqlensQ);
  p.packed_k = p.has(Role::kCuSeqlensK);
  const Tensor& q = p[Role::kQ];
  const Tensor& k = p[Role::kK];
  const Tensor& v = p[Role::kV];
  VOLLEY_TRY(expect_ndim("q", q, p.packed_q ? 3 : 4,
                         p.packed_q ? "(total_q, hq, d) beside cu_seqlens_q" : "(b, sq, hq, d)"));
  const char* key_axes = p.packed_k                ? "(total_k, hk, d) beside cu_seqlens_k"
                         : p.has(Role::kPageTable) ? "(pages, page, hk, d) beside page_table"
                                                   : "(b, sk, hk, d)";
  VOLLEY_TRY(expect_ndim("k", k, p.packed_k ? 3 : 4, key_axes));
  VOLLEY_TRY(expect_ndim("v", v, p.packed_k ? 3 : 4, key_axes));
  for (const Role cu : {Role::kCuSeqlensQ, Role::kCuSeqlensK}) {
    if (!p.has(cu)) continue;
    VOLLEY_TRY(expect_ndim(info(cu).name, p[cu], 1, "(b + 1)"));
    if (p[cu].shape[0] < 1) {
      return invalid(VOLLEY_REASON_SHAPE, "{} has shape (0,), wanted (b + 1), at least 1",
                     info(cu).name);
    }
  }
  p.hq = q.shape[q.ndim - 2];
  p.hk = k.shape[k.ndim - 2];
  p.d = q.shape[q.ndim - 1];
  p.dv = v.shape[v.ndim - 1];
  if (p.hk == 0 ? p.hq != 0 : p.hq % p.hk != 0) {
    return invalid(VOLLEY_REASON_SHAPE, "q has {} heads and k has {}: hq must be a multiple of hk",
                   p.hq, p.hk);
  }
  for (const auto& [name, value] : {std::pair{"q", p.d}, std::pair{"v", p.dv}}) {
    if (value < 1 || value > kLargestHeadDim) {
      return invalid(VOLLEY_REASON_SHAPE, "{} has head dim {}, wanted 1 to {}", name, value,
                     kLargestHeadDim);
    }
  }
  int64_t capacity = k.shape[p.packed_k ? 0 : 1];
  if (p.has(Role::kPageTable)) {
    VOLLEY_TRY(expect_ndim("page_table", p[Role::kPageTable], 2, "(b, max_pages)"));
    p.page = k.shape[1];
    if (p.page < 1) {
      return invalid(VOLLEY_REASON_SHAPE, "k has pages of 0 rows, wanted at least 1");
    }
    const int64_t pages = p[Role::kPageTable].shape[1];
    if (pages > (int64_t{1} << 40) / p.page) {
      return invalid(VOLLEY_REASON_SHAPE, "page_table has {} pages of {} rows, more than 2^40 keys",
                     pages, p.page);
    }
    capacity = pages * p.page;
  }
  VOLLEY_TRY(resolve_max("max_seqlen_q", p.packed_q, q.shape[p.packed_q ? 0 : 1], &p.max_sq));
  VOLLEY_TRY(resolve_max("max_seqlen_k", p.packed_k || p.page > 0, capacity, &p.max_sk));
  VOLLEY_TRY(resolve_batch(&p));
  return check_counts(p);
}

Status normalise_operands(Problem* problem) {
  Problem& p = *problem;
  VOLLEY_TRY(expect_dtype("q", p[Role::kQ],
                          {VOLLEY_BF16, VOLLEY_F16, VOLLEY_F32, VOLLEY_E4M3, VOLLEY_F64}));
  const int32_t dtype = p[Role::kQ].dtype;
  VOLLEY_TRY(expect_dtype("k", p[Role::kK], {dtype}));
  VOLLEY_TRY(expect_dtype("v", p[Role::kV], {dtype}));
  if (dtype == VOLLEY_E4M3) {
    VOLLEY_TRY(expect_dtype("o", p[Role::kO], {VOLLEY_BF16, VOLLEY_F16, VOLLEY_F32, VOLLEY_F64}));
  } else {
    VOLLEY_TRY(expect_dtype("o", p[Role::kO], {dtype, VOLLEY_F32, VOLLEY_F64}));
  }
  unpack(&p[Role::kQ], p.packed_q);
  unpack(&p[Role::kK], p.packed_k);
  if (p[Role::kK].shape[3] != p.d) {
    return invalid(VOLLEY_REASON_SHAPE, "k has head dim {}, q has {}: they must be equal",
                   p[Role::kK].shape[3], p.d);
  }
  VOLLEY_TRY(expect_rows(&p, Role::kV, Role::kK, p.dv));
  VOLLEY_TRY(expect_rows(&p, Role::kO, Role::kQ, p.dv));
  VOLLEY_TRY(expect_lse(&p, Role::kLse));
  VOLLEY_TRY(expect_vector(&p, Role::kCuSeqlensQ, p.b + 1, "(b + 1)"));
  VOLLEY_TRY(expect_vector(&p, Role::kCuSeqlensK, p.b + 1, "(b + 1)"));
  VOLLEY_TRY(expect_vector(&p, Role::kSequsedQ, p.b, "(b)"));
  VOLLEY_TRY(expect_vector(&p, Role::kSequsedK, p.b, "(b)"));
  if (p.page > 0) VOLLEY_TRY(expect_dtype("page_table", p[Role::kPageTable], {VOLLEY_I32}));
  return {};
}

Status normalise_extras(Problem* problem) {
  Problem& p = *problem;
  if (p.has(Role::kSink)) {
    VOLLEY_TRY(
        expect_dtype("sink", p[Role::kSink], {VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16, VOLLEY_F64}));
    VOLLEY_TRY(expect_shape("sink", p[Role::kSink], {p.hq}, "(hq)"));
  }
  if (Tensor& slopes = p[Role::kAlibiSlopes]; slopes.present) {
    VOLLEY_TRY(expect_dtype("alibi_slopes", slopes, {VOLLEY_F32}));
    if (slopes.ndim == 2) {
      VOLLEY_TRY(expect_shape("alibi_slopes", slopes, {p.b, p.hq}, "(b, hq)"));
    } else {
      VOLLEY_TRY(expect_shape("alibi_slopes", slopes, {p.hq}, "(hq)"));
      insert_axis(&slopes, 0, p.b);
    }
  }
  if (Tensor& bias = p[Role::kBias]; bias.present) {
    VOLLEY_TRY(expect_dtype("bias", bias, {VOLLEY_F32, VOLLEY_F16, VOLLEY_BF16, VOLLEY_F64}));
    if (Tensor& dbias = p[Role::kDbias]; dbias.present) {
      const auto& shape = bias.shape;
      VOLLEY_TRY(expect_ndim("bias", bias, 4, "(b, hq, sq, sk)"));
      VOLLEY_TRY(
          expect_shape("dbias", dbias, {shape[0], shape[1], shape[2], shape[3]}, "bias's shape"));
    }
    VOLLEY_TRY(broadcast_to("bias", &bias, {p.b, p.hq, p.max_sq, p.max_sk}, "(b, hq, sq, sk)"));
  }
  if (Tensor& mask = p[Role::kMask]; mask.present) {
    VOLLEY_TRY(expect_dtype("mask", mask, {VOLLEY_BOOL}));
    VOLLEY_TRY(broadcast_to("mask", &mask, {p.b, p.hq, p.max_sq, p.max_sk}, "(b, hq, sq, sk)"));
  }
  VOLLEY_TRY(normalise_descale(&p, Role::kQDescale, 0));
  VOLLEY_TRY(normalise_descale(&p, Role::kKDescale, 1));
  VOLLEY_TRY(normalise_descale(&p, Role::kVDescale, 2));
  VOLLEY_TRY(expect_scalar(&p, Role::kDropoutSeed));
  return expect_scalar(&p, Role::kDropoutOffset);
}

Status normalise_gradients(Problem* problem) {
  Problem& p = *problem;
  if (p.op != VOLLEY_OP_BACKWARD) return {};
  const int32_t dtype = p[Role::kQ].dtype;
  VOLLEY_TRY(expect_dtype("dout", p[Role::kDout], {p[Role::kO].dtype}));
  for (const Role role : {Role::kDq, Role::kDk, Role::kDv}) {
    VOLLEY_TRY(expect_dtype(info(role).name, p[role], {dtype, VOLLEY_F32, VOLLEY_F64}));
  }
  if (p.has(Role::kDbias)) {
    VOLLEY_TRY(
        expect_dtype("dbias", p[Role::kDbias], {p[Role::kBias].dtype, VOLLEY_F32, VOLLEY_F64}));
  }
  if (p.has(Role::kDsink)) {
    VOLLEY_TRY(expect_dtype("dsink", p[Role::kDsink], {VOLLEY_F32, VOLLEY_F64}));
    VOLLEY_TRY(expect_shape("dsink", p[Role::kDsink], {p.hq}, "(hq)"));
  }
  VOLLEY_TRY(expect_rows(&p, Role::kDout, Role::kQ, p.dv));
  VOLLEY_TRY(expect_rows(&p, Role::kDq, Role::kQ, p.d));
  VOLLEY_TRY(expect_rows(&p, Role::kDk, Role::kK, p.d));
  VOLLEY_TRY(expect_rows(&p, Role::kDv, Role::kK, p.dv));
  return expect_lse(&p, Role::kDlse);
}

Status check_outputs(const Problem& problem) {
  for (const RoleInfo& role : kRoles) {
    if (!problem.writes(role) || !may_overlap(problem[role.role])) continue;
    return invalid(VOLLEY_REASON_OVERLAP,
                   "{} has elements that share memory or strides that interleave: an output needs "
                   "a place for each element",
                   role.name);
  }
  return {};
}

}  // namespace volley::core
