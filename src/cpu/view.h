// SPDX-License-Identifier: BSD-3-Clause
//
// View: a tensor of a Problem together with its buffer; elements by index, read and written as
// double. Slow and obvious: for the reference backend and for arrays that are read once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend.h"
#include "dtype.h"
#include "problem.h"

namespace volley::core {

struct View {
  const Tensor* tensor;
  void* data;

  bool present() const { return tensor->present; }

  template <class... Index>
  int64_t offset(Index... index) const {
    int64_t sum = 0;
    size_t axis = 0;
    ((sum += int64_t{index} * tensor->stride[axis++]), ...);
    return sum;
  }
  template <class... Index>
  double at(Index... index) const {
    return load_element(tensor->dtype, data, offset(index...));
  }
  template <class... Index>
  void set(double value, Index... index) const {
    store_element(tensor->dtype, data, offset(index...), value);
  }
};

// Writes `value` to every element; nothing to an absent tensor.
inline void fill(const View& view, double value, int32_t axis = 0, int64_t offset = 0) {
  if (!view.present()) return;
  if (axis == view.tensor->ndim) {
    store_element(view.tensor->dtype, view.data, offset, value);
    return;
  }
  for (int64_t i = 0; i < view.tensor->shape[axis]; ++i) {
    fill(view, value, axis + 1, offset + i * view.tensor->stride[axis]);
  }
}

inline View view_of(const Problem& problem, const Buffers& buffers, Role role) {
  return {&problem[role], buffers[role]};
}

}  // namespace volley::core
