// SPDX-License-Identifier: BSD-3-Clause
//
// A valid volley_problem whose tensors a test can bend: every tensor of the contract by role, with
// no data. Used by the tests of Problem, offers and Plan.
#pragma once

#include <array>
#include <initializer_list>

#include "problem.h"

namespace volley::core {

inline volley_tensor contiguous(int32_t dtype, std::initializer_list<int64_t> shape) {
  volley_tensor tensor{};
  tensor.dtype = dtype;
  tensor.ndim = static_cast<int32_t>(shape.size());
  tensor.device_type = VOLLEY_DEVICE_CPU;
  int64_t stride = 1;
  for (int32_t i = tensor.ndim - 1; i >= 0; --i) {
    tensor.shape[i] = shape.begin()[i];
    tensor.stride[i] = stride;
    stride *= std::max<int64_t>(shape.begin()[i], 1);
  }
  return tensor;
}

struct ProblemBuilder {
  std::array<volley_tensor, kRoleCount> tensors{};
  std::array<bool, kRoleCount> present{};
  volley_problem options;

  ProblemBuilder() { volley_problem_init(&options); }

  // A dense forward.
  ProblemBuilder(int32_t dtype, int64_t b, int64_t sq, int64_t sk, int64_t hq, int64_t hk,
                 int64_t d, int64_t dv)
      : ProblemBuilder() {
    set(Role::kQ, contiguous(dtype, {b, sq, hq, d}));
    set(Role::kK, contiguous(dtype, {b, sk, hk, d}));
    set(Role::kV, contiguous(dtype, {b, sk, hk, dv}));
    set(Role::kO, contiguous(dtype == VOLLEY_E4M3 ? VOLLEY_BF16 : dtype, {b, sq, hq, dv}));
    set(Role::kLse, contiguous(VOLLEY_F32, {b, hq, sq}));
  }

  static ProblemBuilder plain() { return {VOLLEY_BF16, 2, 5, 7, 4, 2, 64, 64}; }

  // The same, as a backward.
  ProblemBuilder& backward() {
    options.op = VOLLEY_OP_BACKWARD;
    set(Role::kDout, (*this)[Role::kO]);
    set(Role::kDq, (*this)[Role::kQ]);
    set(Role::kDk, (*this)[Role::kK]);
    set(Role::kDv, (*this)[Role::kV]);
    return *this;
  }

  volley_tensor& operator[](Role role) { return tensors[static_cast<size_t>(role)]; }
  void set(Role role, const volley_tensor& tensor) {
    (*this)[role] = tensor;
    present[static_cast<size_t>(role)] = true;
  }
  void drop(Role role) { present[static_cast<size_t>(role)] = false; }

  // Points into this builder.
  volley_problem build() const {
    volley_problem problem = options;
    for (const RoleInfo& role : kRoles) {
      const auto i = static_cast<size_t>(role.role);
      const volley_tensor* tensor = present[i] ? &tensors[i] : nullptr;
      std::memcpy(reinterpret_cast<char*>(&problem) + role.problem_offset, &tensor, sizeof tensor);
    }
    return problem;
  }

  Status make(Problem* out) const { return make_problem(build(), out); }
};

}  // namespace volley::core
