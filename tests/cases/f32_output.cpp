// SPDX-License-Identifier: BSD-3-Clause
//
// Cases about calls whose o, and in the backward dout, is fp32 beside narrower inputs.
#include "cases.h"
#include "naive_row.h"

namespace volley::check {
namespace {

// In every way that a tensor can be hard to read: elements apart, an odd number of them, in more
// than 64 columns, packed, heads that share keys.
Case hard_to_read(int32_t dtype) {
  Case c;
  c.op = VOLLEY_OP_BACKWARD;
  c.dtype = dtype;
  c.out_dtype = VOLLEY_F32;
  c.o_layout = Layout::kStridedLast;
  c.d = 40;
  c.dv = 99;
  c.b = 2;
  c.sq = 139;  // two rows are nobody's
  c.sk = 153;
  c.cu_q = {0, 70, 137};
  c.cu_k = {0, 3, 153};
  c.set_heads(4, 2);
  c.causal = true;
  c.alignment = VOLLEY_ALIGN_TOP_LEFT;
  c.logit_std = 4;
  return c;
}

// What q's type holds of each element.
void round_to_inputs(HostTensor& dout, int32_t dtype) {
  for (int64_t i = 0; i < dout.size(); ++i) {
    dout.set_flat(i, round_to(dtype, static_cast<float>(dout.flat(i))));
  }
}

// Each row's o is v but for what rounding makes of the sum's one weight. The naive program is
// exact.
TEST_P(Cases, RowsWithOneKeyInAnF32Output) {
  for (const int32_t dtype : {VOLLEY_F16, VOLLEY_BF16}) {
    for (const double logit_std : {1.0, 4.0, 20.0}) {
      Case c;
      c.dtype = dtype;
      c.out_dtype = VOLLEY_F32;
      c.sq = c.sk = 200;
      c.left = c.right = 0;
      c.logit_std = logit_std;
      expect_right(build(c));
    }
  }
}

// dsink and an fp32 dbias are sums of fp32 numbers. Where dout is exact in q's type they show what
// becomes of o.
TEST_P(Cases, GradientsOfAnF32Output) {
  for (const int32_t dtype : {VOLLEY_F16, VOLLEY_BF16}) {
    for (const bool exact : {false, true}) {
      Case c = hard_to_read(dtype);
      c.sink = true;
      c.bias = "hqk";
      Instance instance = build(c);
      if (exact) round_to_inputs(instance[Role::kDout], dtype);
      expect_right_gradients(instance);
    }
  }
}

// At the small end of fp16's range, below which lies what rounding leaves of o.
TEST_P(Cases, GradientsOfAnF32OutputOfSmallValues) {
  Case c = hard_to_read(VOLLEY_F16);
  c.sink = true;
  Instance instance = build(c);
  HostTensor& v = instance[Role::kV];
  for (int64_t i = 0; i < v.size(); ++i) v.set_flat(i, 0x1p-14 * v.flat(i));
  round_to_inputs(instance[Role::kDout], c.dtype);
  expect_right_gradients(instance);
}

// o is v then, and nothing is left of dP - delta: not even what rounding dout takes.
TEST_P(Cases, RowsWithOneKeyHaveNoGradientWhereTheOutputIsF32) {
  for (const int32_t dtype : {VOLLEY_F16, VOLLEY_BF16}) {
    Case c = hard_to_read(dtype);
    c.cu_q.clear();
    c.cu_k.clear();
    c.left = 0;
    c.sk = c.sq;
    Instance instance = build(c);
    if (!gradients_offered(instance)) continue;
    for (const Role role : {Role::kDq, Role::kDk}) {
      const HostTensor& gradient = instance[role];
      for (int64_t i = 0; i < gradient.size(); ++i) ASSERT_EQ(gradient.flat(i), 0) << i;
    }
  }
}

// One element of dout, of query 5 and head 1; it sees keys 0 to 5 of the second sequence.
TEST_P(Cases, NanAndInfinityInDoutShowWhereTheyAreSeen) {
  for (const double value : {std::nan(""), kInfinity}) {
    for (const int32_t out_dtype : {VOLLEY_BF16, VOLLEY_F32}) {
      Case c = hard_to_read(VOLLEY_BF16);
      c.out_dtype = out_dtype;
      Instance instance = build(c);
      instance[Role::kDout].set(instance.index(Role::kDout, 1, 5, 1, 70), value);
      if (!gradients_offered(instance)) continue;
      const auto finite = [&](Role role, int64_t n, int64_t row, int64_t h, int64_t x) {
        return std::isfinite(instance[role].at(instance.index(role, n, row, h, x)));
      };
      for (int64_t x = 0; x < c.d; ++x) {
        EXPECT_FALSE(finite(Role::kDq, 1, 5, 1, x)) << value << ", column " << x;
        for (int64_t i = 0; i < 67; ++i) EXPECT_TRUE(i == 5 || finite(Role::kDq, 1, i, 1, x)) << i;
        for (int64_t j = 0; j <= 5; ++j) EXPECT_FALSE(finite(Role::kDk, 1, j, 0, x)) << j;
        for (int64_t j = 0; j < 3; ++j) EXPECT_TRUE(finite(Role::kDk, 0, j, 0, x)) << j;
        for (int64_t j = 0; j < 150; ++j) EXPECT_TRUE(finite(Role::kDk, 1, j, 1, x)) << j;
      }
      for (int64_t j = 0; j <= 5; ++j) EXPECT_FALSE(finite(Role::kDv, 1, j, 0, 70)) << j;
    }
  }
}

}  // namespace
}  // namespace volley::check
