// SPDX-License-Identifier: BSD-3-Clause
//
// See geometry.h. The library judges the result; only what would overflow on the way is refused
// here.
#include "geometry.h"

#include <algorithm>

namespace volley::cli {
namespace {

using core::Role;

constexpr int64_t kScaleBlock = 128;  // rows a descale block: the default of the library

int64_t product(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) {
    bad_input("the tensors would be too large: {} times {} elements", a, b);
  }
  return result;
}

int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

GeometryFlags resolve(GeometryFlags flags) {
  if (flags.sk < 0) flags.sk = flags.sq;
  if (flags.hk < 0) flags.hk = flags.hq;
  if (flags.dv < 0) flags.dv = flags.d;
  return flags;
}

}  // namespace

Geometry::Geometry(const GeometryFlags& flags, int32_t device_type)
    : flags_(resolve(flags)), device_type_(device_type) {
  volley_problem_init(&problem);
  const GeometryFlags& f = flags_;
  const int32_t dtype = dtype_by_name(f.dtype);
  int32_t o_dtype = dtype == VOLLEY_E4M3 ? VOLLEY_BF16 : dtype;
  if (!f.o_dtype.empty()) o_dtype = dtype_by_name(f.o_dtype);
  const bool packed_k = f.varlen && f.page == 0;
  const int64_t pages = f.page > 0 ? product(f.b, ceil_div(f.sk, f.page)) : 0;
  const int64_t k_outer = f.page > 0 ? pages : f.b;
  const int64_t k_rows = f.page > 0 ? f.page : f.sk;

  add_operand(Role::kQ, dtype, f.varlen, {f.b, f.sq, f.hq, f.d});
  add_operand(Role::kK, dtype, packed_k, {k_outer, k_rows, f.hk, f.d});
  add_operand(Role::kV, dtype, packed_k, {k_outer, k_rows, f.hk, f.dv});
  add_operand(Role::kO, o_dtype, f.varlen, {f.b, f.sq, f.hq, f.dv});
  if (f.varlen) {
    add(Role::kLse, VOLLEY_F32, {f.hq, product(f.b, f.sq)});
  } else {
    add(Role::kLse, VOLLEY_F32, {f.b, f.hq, f.sq});
  }
  if (f.backward) {
    problem.op = VOLLEY_OP_BACKWARD;
    add_operand(Role::kDout, o_dtype, f.varlen, {f.b, f.sq, f.hq, f.dv});
    add_operand(Role::kDq, dtype, f.varlen, {f.b, f.sq, f.hq, f.d});
    add_operand(Role::kDk, dtype, packed_k, {k_outer, k_rows, f.hk, f.d});
    add_operand(Role::kDv, dtype, packed_k, {k_outer, k_rows, f.hk, f.dv});
  }
  add_lengths();
  add_scores();
  if (f.descale) add_descales();
}

volley_tensor& Geometry::add(Role role, int32_t dtype, Shape shape) {
  volley_tensor& tensor = tensors[static_cast<size_t>(role)];
  tensor.dtype = dtype;
  tensor.ndim = static_cast<int32_t>(shape.size());
  tensor.device_type = device_type_;
  std::copy(shape.begin(), shape.end(), tensor.shape);
  int64_t next = 1;
  for (int32_t axis = tensor.ndim; axis-- > 0;) {
    tensor.stride[axis] = next;
    next = product(next, std::max<int64_t>(tensor.shape[axis], 1));
  }
  auto* field = reinterpret_cast<char*>(&problem) + core::info(role).problem_offset;
  *reinterpret_cast<const volley_tensor**>(field) = &tensor;
  return tensor;
}

// shape is (b, s, h, d); rows lie padding elements apart.
void Geometry::add_operand(Role role, int32_t dtype, bool packed, Shape shape) {
  const int64_t* size = shape.begin();
  volley_tensor& tensor = packed ? add(role, dtype, {product(size[0], size[1]), size[2], size[3]})
                                 : add(role, dtype, shape);
  tensor.alignment = flags_.alignment;
  int64_t& row = tensor.stride[packed ? 0 : 1];
  if (__builtin_add_overflow(row, flags_.padding, &row)) bad_input("--row-padding is too large");
  if (!packed) tensor.stride[0] = product(row, std::max<int64_t>(size[1], 1));
}

void Geometry::add_lengths() {
  const GeometryFlags& f = flags_;
  int64_t ends = 0;
  if (__builtin_add_overflow(f.b, 1, &ends)) bad_input("--b is too large");
  if (f.varlen) {
    add(Role::kCuSeqlensQ, VOLLEY_I32, {ends});
    problem.max_seqlen_q = f.sq;
  }
  if (f.varlen && f.page == 0) {
    add(Role::kCuSeqlensK, VOLLEY_I32, {ends});
    problem.max_seqlen_k = f.sk;
  }
  if (f.used_lengths) add(Role::kSequsedQ, VOLLEY_I32, {f.b});
  if (f.used_lengths || f.page > 0) add(Role::kSequsedK, VOLLEY_I32, {f.b});
  if (f.page > 0) add(Role::kPageTable, VOLLEY_I32, {f.b, ceil_div(f.sk, f.page)});
}

void Geometry::add_scores() {
  const GeometryFlags& f = flags_;
  if (f.sink) add(Role::kSink, VOLLEY_F32, {f.hq});
  if (f.alibi) add(Role::kAlibiSlopes, VOLLEY_F32, {f.hq});
  if (f.bias) add(Role::kBias, VOLLEY_F32, {1, f.hq, f.sq, f.sk});
  if (f.dropout) add(Role::kDropoutSeed, VOLLEY_I64, {1});
  if (f.mask) add(Role::kMask, VOLLEY_BOOL, {1, 1, f.sq, f.sk});
}

void Geometry::add_descales() {
  const GeometryFlags& f = flags_;
  const bool paged = f.page > 0;
  const int64_t outer = paged ? tensors[static_cast<size_t>(Role::kK)].shape[0] : f.b;
  const int64_t blocks = ceil_div(paged ? f.page : f.sk, kScaleBlock);
  add(Role::kQDescale, VOLLEY_F32, {f.b, f.hk, ceil_div(f.sq, kScaleBlock)});
  add(Role::kKDescale, VOLLEY_F32, {outer, f.hk, blocks});
  add(Role::kVDescale, VOLLEY_F32, {outer, f.hk, blocks});
}

}  // namespace volley::cli
