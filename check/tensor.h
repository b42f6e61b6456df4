// SPDX-License-Identifier: BSD-3-Clause
//
// HostTensor: a strided tensor that owns its memory, for tests, `volley check` and the command
// line. All memory starts as NaN (or a poison pattern), also the gaps between strides and a margin
// around, so that whatever must not matter would show. Read case.h next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "volley/volley.h"

namespace volley::check {

class HostTensor {
 public:
  HostTensor() = default;  // absent: view() is NULL

  // Contiguous, every element poisoned.
  HostTensor(int32_t dtype, std::vector<int64_t> shape);

  // Any strides (elements; may be 0 or negative). The base address is 256-byte aligned plus
  // `offset` elements.
  HostTensor(int32_t dtype, std::vector<int64_t> shape, std::vector<int64_t> stride,
             int64_t offset = 0);

  // Contiguous in another order of axes: axes listed from the slowest to the fastest.
  static HostTensor permuted(int32_t dtype, std::vector<int64_t> shape,
                             std::span<const int> slowest_first);

  bool present() const { return storage_ != nullptr; }
  int32_t dtype() const { return tensor_.dtype; }
  int64_t size() const;  // elements
  std::vector<int64_t> shape() const;
  std::vector<int64_t> stride() const;

  // The view for volley_problem and volley_buffers; NULL when absent. Valid while this lives.
  const volley_tensor* view() const { return present() ? &tensor_ : nullptr; }
  volley_tensor* view() { return present() ? &tensor_ : nullptr; }
  void* data() const { return tensor_.data; }

  // All bytes that the tensor owns, for copies to a device; data() lies inside.
  std::span<std::byte> storage() const;

  // For outputs, after a run: no byte outside the elements (margins, gaps) was written; no byte at
  // all was written.
  bool untouched_outside() const;
  bool untouched() const;

  // Element access by index in the shape; reads as double, writes round once (e8m0: down to a power
  // of two).
  double at(std::span<const int64_t> index) const;
  double at(std::initializer_list<int64_t> index) const {
    return at({index.begin(), index.size()});
  }
  void set(std::span<const int64_t> index, double value);
  void set(std::initializer_list<int64_t> index, double value) {
    set({index.begin(), index.size()}, value);
  }

  // Element access in row-major order of the shape, whatever the strides.
  double flat(int64_t i) const;
  void set_flat(int64_t i, double value);

  void fill(double value);
  void poison();  // NaN in floating dtypes, 0x7f bytes in integers, everywhere in storage()
  HostTensor clone() const;
  HostTensor contiguous() const;  // same values, contiguous

 private:
  void store(int64_t offset, double value);
  int64_t offset_of(std::span<const int64_t> index) const;
  int64_t offset_of_flat(int64_t i) const;

  std::shared_ptr<std::byte[]> storage_;
  size_t bytes_ = 0;
  volley_tensor tensor_{};
};

// True when shape, dtype and every element's bits agree (NaN equals NaN of the same bits).
bool same_bits(const HostTensor& a, const HostTensor& b);

}  // namespace volley::check
