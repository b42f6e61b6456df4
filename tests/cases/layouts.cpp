// SPDX-License-Identifier: BSD-3-Clause
//
// Cases about memory: K and V laid out apart, strides that mean nothing.
#include "cases.h"

namespace volley::check {
namespace {

// FlagAttention #45, FlagGems #5896: K and V with layouts of their own.
TEST_P(Cases, KeysAndValuesLaidOutApart) {
  for (const int32_t dtype : {VOLLEY_F16, VOLLEY_BF16}) {
    Case plain = blank(dtype, 200, 200, 64);
    plain.values = Values::kNormal;
    plain.set_heads(2, 2);
    Case apart = plain;
    apart.k_layout = Layout::kEverySecondRow;
    expect_same(build(plain), build(apart));
    std::swap(apart.k_layout, apart.v_layout);
    expect_same(build(plain), build(apart));
    apart.v_layout = Layout::kRows;
    apart.k_layout = Layout::kHeadsFirst;
    expect_same(build(plain), build(apart));
    std::swap(apart.k_layout, apart.v_layout);
    expect_same(build(plain), build(apart));
  }
}

// The same values behind a stride of 337 along every axis of size 1.
HostTensor with_junk_strides(const HostTensor& t) {
  std::vector<int64_t> stride = t.stride();
  const std::vector<int64_t> shape = t.shape();
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) stride[axis] = 337;
  }
  HostTensor copy(t.dtype(), shape, stride);
  for (int64_t i = 0; i < t.size(); ++i) copy.set_flat(i, t.flat(i));
  return copy;
}

Instance with_junk_strides(const Case& c) {
  Instance instance = build(c);
  for (const Role role : {Role::kQ, Role::kK, Role::kV, Role::kO}) {
    instance[role] = with_junk_strides(instance[role]);
  }
  return instance;
}

// FlashInfer #2232: the stride of a dim of size 1 means nothing.
TEST_P(Cases, StridesOfDimsOfSizeOne) {
  Case dense = blank(VOLLEY_BF16, 40, 100, 64);
  dense.values = Values::kNormal;
  expect_same(build(dense), with_junk_strides(dense));
  Case paged = dense;
  paged.page = 16;
  paged.used_k = {80};
  expect_same(build(paged), with_junk_strides(paged));
}

}  // namespace
}  // namespace volley::check
