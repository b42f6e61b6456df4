// SPDX-License-Identifier: BSD-3-Clause
#include "cpu/gradient_output.h"

#include <cstring>

#include "cpu/thread_pool.h"
#include "dtype.h"

namespace volley::core {
namespace {

float encode_f32(float x) { return x; }

template <class Element>
void store_row(const float* values, int64_t n, Element (*encode)(float), void* to, int64_t stride) {
  auto* elements = static_cast<Element*>(to);
  if (stride == 1) {  // a loop that compilers vectorise
    for (int64_t i = 0; i < n; ++i) elements[i] = encode(values[i]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) elements[i * stride] = encode(values[i]);
}

}  // namespace

void put_element(const View& gradient, bool accumulate, double value, int64_t offset) {
  const int32_t dtype = gradient.tensor->dtype;
  if (accumulate) value += load_element(dtype, gradient.data, offset);
  store_element(dtype, gradient.data, offset, value);
}

void put_row(const View& gradient, bool accumulate, const float* values, int64_t a, int64_t b,
             int64_t c) {
  const Tensor& tensor = *gradient.tensor;
  const int64_t n = tensor.shape[3];
  const int64_t offset = gradient.offset(a, b, c);
  if (accumulate) {
    for (int64_t e = 0; e < n; ++e) {
      put_element(gradient, true, values[e], offset + e * tensor.stride[3]);
    }
    return;
  }
  void* to = static_cast<char*>(gradient.data) + offset * dtype_size(tensor.dtype);
  switch (tensor.dtype) {
    case VOLLEY_F32: return store_row(values, n, encode_f32, to, tensor.stride[3]);
    case VOLLEY_F16: return store_row(values, n, float_to_f16, to, tensor.stride[3]);
    default: return store_row(values, n, float_to_bf16, to, tensor.stride[3]);
  }
}

void clear_unused_rows(const Problem& problem, const Buffers& buffers, int threads) {
  if (problem.accumulate_grads) return;
  const bool q = problem.packed_q || problem.has(Role::kSequsedQ);
  const bool k = problem.packed_k || problem.has(Role::kSequsedK);
  for (const Role role : {Role::kDq, Role::kDk, Role::kDv}) {
    const View gradient = view_of(problem, buffers, role);
    const auto& shape = gradient.tensor->shape;
    if (!(role == Role::kDq ? q : k) || gradient.tensor->empty()) continue;
    parallel_for(shape[0] * shape[1], threads, [&](int64_t row, int) {
      for (int64_t h = 0; h < shape[2]; ++h) {
        const int64_t offset = gradient.offset(row / shape[1], row % shape[1], h);
        for (int64_t e = 0; e < shape[3]; ++e) {
          store_element(gradient.tensor->dtype, gradient.data,
                        offset + e * gradient.tensor->stride[3], 0);
        }
      }
    });
  }
}

}  // namespace volley::core
