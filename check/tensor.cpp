// SPDX-License-Identifier: BSD-3-Clause
//
// HostTensor: the memory behind a strided view, poisoned from the first byte to the last.
#include "tensor.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "dtype.h"

namespace volley::check {
namespace {

constexpr size_t kAlignment = 256;  // what a workspace wants
constexpr size_t kMargin = 256;     // bytes on either side: two cache lines, two TMA boxes' worth

std::shared_ptr<std::byte[]> allocate(size_t bytes) {
  const auto alignment = std::align_val_t{kAlignment};
  return {static_cast<std::byte*>(::operator new(bytes, alignment)),
          [alignment](std::byte* p) { ::operator delete(p, alignment); }};
}

// All ones is NaN in every floating dtype of the library; 0x7f7f... is a huge length or page.
std::byte poison_byte(int32_t dtype) {
  const bool integer = dtype == VOLLEY_I32 || dtype == VOLLEY_I64 || dtype == VOLLEY_BOOL;
  return integer ? std::byte{0x7f} : std::byte{0xff};
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> stride(shape.size());
  int64_t next = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    stride[axis] = next;
    next *= std::max<int64_t>(shape[axis], 1);
  }
  return stride;
}

bool all_equal(std::span<const std::byte> bytes, std::byte value) {
  return std::all_of(bytes.begin(), bytes.end(), [=](std::byte b) { return b == value; });
}

}  // namespace

HostTensor::HostTensor(int32_t dtype, std::vector<int64_t> shape)
    : HostTensor(dtype, shape, contiguous_strides(shape)) {}

HostTensor::HostTensor(int32_t dtype, std::vector<int64_t> shape, std::vector<int64_t> stride,
                       int64_t offset) {
  tensor_.dtype = dtype;
  tensor_.ndim = static_cast<int32_t>(shape.size());
  tensor_.device_type = VOLLEY_DEVICE_CPU;
  int64_t lowest = 0;
  int64_t highest = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    tensor_.shape[axis] = shape[axis];
    tensor_.stride[axis] = stride[axis];
    const int64_t reach = std::max<int64_t>(shape[axis] - 1, 0) * stride[axis];
    (reach < 0 ? lowest : highest) += reach;
  }
  const auto element = static_cast<size_t>(core::dtype_size(dtype));
  const size_t below = kMargin + static_cast<size_t>(-lowest) * element;
  const size_t front = (below + kAlignment - 1) / kAlignment * kAlignment;
  bytes_ = front + static_cast<size_t>(offset + highest + 1) * element + kMargin;
  storage_ = allocate(bytes_);
  tensor_.data = storage_.get() + front + static_cast<size_t>(offset) * element;
  poison();
}

HostTensor HostTensor::permuted(int32_t dtype, std::vector<int64_t> shape,
                                std::span<const int> slowest_first) {
  std::vector<int64_t> stride(shape.size());
  int64_t next = 1;
  for (size_t i = slowest_first.size(); i-- > 0;) {
    const auto axis = static_cast<size_t>(slowest_first[i]);
    stride[axis] = next;
    next *= std::max<int64_t>(shape[axis], 1);
  }
  return {dtype, std::move(shape), std::move(stride)};
}

int64_t HostTensor::size() const {
  if (!present()) return 0;
  return std::accumulate(tensor_.shape, tensor_.shape + tensor_.ndim, int64_t{1},
                         std::multiplies<>());
}

std::vector<int64_t> HostTensor::shape() const {
  return {tensor_.shape, tensor_.shape + tensor_.ndim};
}

std::vector<int64_t> HostTensor::stride() const {
  return {tensor_.stride, tensor_.stride + tensor_.ndim};
}

std::span<std::byte> HostTensor::storage() const { return {storage_.get(), bytes_}; }

bool HostTensor::untouched() const { return all_equal(storage(), poison_byte(dtype())); }

bool HostTensor::untouched_outside() const {
  const auto element = static_cast<size_t>(core::dtype_size(dtype()));
  std::vector<std::byte> outside(storage().begin(), storage().end());
  const int64_t base = static_cast<std::byte*>(data()) - storage_.get();
  for (int64_t i = 0, n = size(); i < n; ++i) {
    const int64_t at = base + offset_of_flat(i) * static_cast<int64_t>(element);
    std::fill_n(outside.begin() + at, element, poison_byte(dtype()));
  }
  return all_equal(outside, poison_byte(dtype()));
}

double HostTensor::at(std::span<const int64_t> index) const {
  return core::load_element(dtype(), data(), offset_of(index));
}

void HostTensor::set(std::span<const int64_t> index, double value) {
  store(offset_of(index), value);
}

double HostTensor::flat(int64_t i) const {
  return core::load_element(dtype(), data(), offset_of_flat(i));
}

void HostTensor::set_flat(int64_t i, double value) { store(offset_of_flat(i), value); }

void HostTensor::fill(double value) {
  for (int64_t i = 0, n = size(); i < n; ++i) set_flat(i, value);
}

void HostTensor::poison() { std::fill_n(storage_.get(), bytes_, poison_byte(dtype())); }

HostTensor HostTensor::clone() const {
  HostTensor copy = *this;
  if (!present()) return copy;
  copy.storage_ = allocate(bytes_);
  std::memcpy(copy.storage_.get(), storage_.get(), bytes_);
  copy.tensor_.data = copy.storage_.get() + (static_cast<std::byte*>(data()) - storage_.get());
  return copy;
}

HostTensor HostTensor::contiguous() const {
  HostTensor copy(dtype(), shape());
  const auto element = static_cast<size_t>(core::dtype_size(dtype()));
  const auto* from = static_cast<const std::byte*>(data());
  auto* to = static_cast<std::byte*>(copy.data());
  for (int64_t i = 0, n = size(); i < n; ++i, to += element) {
    std::memcpy(to, from + offset_of_flat(i) * static_cast<int64_t>(element), element);
  }
  return copy;
}

void HostTensor::store(int64_t offset, double value) {
  const auto put = [&]<class T>(T element) {
    std::memcpy(static_cast<T*>(data()) + offset, &element, sizeof element);
  };
  switch (dtype()) {
    case VOLLEY_I32: put(static_cast<int32_t>(value)); break;
    case VOLLEY_I64: put(static_cast<int64_t>(value)); break;
    case VOLLEY_BOOL: put(static_cast<uint8_t>(value != 0)); break;
    case VOLLEY_E8M0: put(static_cast<uint8_t>(std::ilogb(value) + 127)); break;
    default: core::store_element(dtype(), data(), offset, value);
  }
}

int64_t HostTensor::offset_of(std::span<const int64_t> index) const {
  int64_t offset = 0;
  for (size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * tensor_.stride[axis];
  return offset;
}

int64_t HostTensor::offset_of_flat(int64_t i) const {
  int64_t offset = 0;
  for (int32_t axis = tensor_.ndim; axis-- > 0;) {
    offset += i % tensor_.shape[axis] * tensor_.stride[axis];
    i /= tensor_.shape[axis];
  }
  return offset;
}

bool same_bits(const HostTensor& a, const HostTensor& b) {
  if (!a.present() || !b.present()) return a.present() == b.present();
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const HostTensor left = a.contiguous();
  const HostTensor right = b.contiguous();
  const auto bytes = static_cast<size_t>(a.size() * core::dtype_size(a.dtype()));
  return std::memcmp(left.data(), right.data(), bytes) == 0;
}

}  // namespace volley::check
