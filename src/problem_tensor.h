// SPDX-License-Identifier: BSD-3-Clause
//
// One tensor of a problem, judged by itself: dtype, sizes, strides, alignment, overlap. What the
// tensors must be to each other is in problem.cpp.
#pragma once

#include <initializer_list>
#include <string>

#include "problem.h"

namespace volley::core {

// "(2, 3, 64)", for messages.
std::string shape_text(const Tensor& tensor);

// Reads a tensor as given: every size and stride within 64 bits, base alignment known, strides of
// dims of size 0 and 1 set to 0.
Status read_tensor(const char* name, const volley_tensor& in, Tensor* out);

// Two elements at one address, or strides that interleave so that this cannot be excluded.
bool may_overlap(const Tensor& tensor);

Status expect_ndim(const char* name, const Tensor& tensor, int32_t wanted, const char* axes);

// dtype is one of `wanted`.
Status expect_dtype(const char* name, const Tensor& tensor, std::initializer_list<int32_t> wanted);

// shape equals `wanted`; axes is what the message calls them, "(b, sk, hk, d)".
Status expect_shape(const char* name, const Tensor& tensor, std::initializer_list<int64_t> wanted,
                    const char* axes);

// Like expect_shape, but a dim of size 1 broadcasts: it gets its full size and stride 0.
Status broadcast_to(const char* name, Tensor* tensor, std::initializer_list<int64_t> wanted,
                    const char* axes);

// Inserts an axis of `size` with stride 0 before `axis`.
void insert_axis(Tensor* tensor, int axis, int64_t size);

}  // namespace volley::core
