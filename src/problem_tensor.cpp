// SPDX-License-Identifier: BSD-3-Clause
#include "problem_tensor.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "dtype.h"

namespace volley::core {
namespace {

std::string list_text(const int64_t* values, int64_t count) {
  std::string text = "(";
  for (int64_t i = 0; i < count; ++i) text += fmt::format("{}{}", i ? ", " : "", values[i]);
  return text + (count == 1 ? ",)" : ")");
}

__extension__ using Wide = __int128;

// The extent in bytes fits 64 bits, so that no later offset can overflow.
bool extent_fits(const Tensor& tensor) {
  Wide low = 0;
  Wide high = 0;
  Wide elements = 1;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return true;
    const Wide reach = Wide{tensor.shape[i] - 1} * tensor.stride[i];
    (reach < 0 ? low : high) += reach;
    elements *= tensor.shape[i];
    if (elements > INT64_MAX / 8) return false;
  }
  return (high - low + 1) * dtype_size(tensor.dtype) <= INT64_MAX / 2;
}

Status read_alignment(const char* name, const volley_tensor& in, Tensor* out) {
  constexpr int64_t kCap = 128;
  constexpr int64_t kAssumed = 16;
  if (in.alignment < 0 || (in.alignment != 0 && !std::has_single_bit(uint64_t(in.alignment)))) {
    return invalid(VOLLEY_REASON_ALIGNMENT,
                   "{}.alignment is {}, it must be 0 (unknown) or a power of two", name,
                   in.alignment);
  }
  const auto address = reinterpret_cast<uintptr_t>(in.data);
  const int64_t actual = in.data == nullptr
                             ? kAssumed
                             : int64_t{1} << std::min<int>(std::countr_zero(uint64_t{address}), 7);
  const int64_t given = std::min(in.alignment, kCap);
  if (in.data != nullptr && given > actual) {
    return invalid(VOLLEY_REASON_ALIGNMENT,
                   "{}.alignment says {} bytes, but {}.data is aligned to {} only", name,
                   in.alignment, name, actual);
  }
  out->alignment = in.alignment != 0 ? given : actual;
  if (out->alignment < dtype_size(out->dtype)) {
    return invalid(VOLLEY_REASON_ALIGNMENT, "{} is aligned to {} bytes, its elements need {}", name,
                   out->alignment, dtype_size(out->dtype));
  }
  return {};
}

}  // namespace

std::string shape_text(const Tensor& tensor) { return list_text(tensor.shape.data(), tensor.ndim); }

Status read_tensor(const char* name, const volley_tensor& in, Tensor* out) {
  *out = Tensor{};
  out->present = true;
  out->dtype = in.dtype;
  if (dtype_size(in.dtype) == 0) {
    return invalid(VOLLEY_REASON_DTYPE, "{}.dtype is {:#x}, which is none that Volley knows", name,
                   in.dtype);
  }
  if (in.ndim < 0 || in.ndim > 5) {
    return invalid(VOLLEY_REASON_SHAPE, "{}.ndim is {}, it must be 0 to 5", name, in.ndim);
  }
  if (in.reserved != 0) {
    return invalid(VOLLEY_REASON_STRUCT, "{}.reserved is {}, it must be 0", name, in.reserved);
  }
  out->ndim = in.ndim;
  for (int32_t i = 0; i < in.ndim; ++i) {
    if (in.shape[i] < 0) {
      return invalid(VOLLEY_REASON_SHAPE, "{}.shape[{}] is {}, it must not be negative", name, i,
                     in.shape[i]);
    }
    out->shape[i] = in.shape[i];
    out->stride[i] = in.shape[i] > 1 ? in.stride[i] : 0;
  }
  const auto shape_end = out->shape.begin() + out->ndim;
  if (std::find(out->shape.begin(), shape_end, 0) != shape_end) out->stride.fill(0);
  if (!extent_fits(*out)) {
    return invalid(VOLLEY_REASON_STRIDE,
                   "{} with shape {} and strides {} reaches beyond 64-bit addresses", name,
                   shape_text(*out), list_text(out->stride.data(), out->ndim));
  }
  return read_alignment(name, in, out);
}

bool may_overlap(const Tensor& tensor) {
  std::vector<std::pair<int64_t, int64_t>> axes;  // |stride|, size
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return false;
    if (tensor.shape[i] > 1) axes.emplace_back(std::abs(tensor.stride[i]), tensor.shape[i]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t reach = 0;  // the largest offset inside the axes so far
  for (const auto& [stride, size] : axes) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

Status expect_ndim(const char* name, const Tensor& tensor, int32_t wanted, const char* axes) {
  if (tensor.ndim == wanted) return {};
  return invalid(VOLLEY_REASON_SHAPE, "{} has shape {}, wanted {} dims {}", name,
                 shape_text(tensor), wanted, axes);
}

Status expect_dtype(const char* name, const Tensor& tensor, std::initializer_list<int32_t> wanted) {
  if (std::find(wanted.begin(), wanted.end(), tensor.dtype) != wanted.end()) return {};
  std::string names;
  for (const int32_t* dtype = wanted.begin(); dtype != wanted.end(); ++dtype) {
    if (std::find(wanted.begin(), dtype, *dtype) != dtype) continue;  // named already
    names += fmt::format("{}{}", names.empty() ? "" : " or ", volley_dtype_name(*dtype));
  }
  return invalid(VOLLEY_REASON_DTYPE, "{} is {}, wanted {}", name, volley_dtype_name(tensor.dtype),
                 names);
}

Status expect_shape(const char* name, const Tensor& tensor, std::initializer_list<int64_t> wanted,
                    const char* axes) {
  const auto ndim = static_cast<int32_t>(wanted.size());
  if (tensor.ndim == ndim && std::equal(wanted.begin(), wanted.end(), tensor.shape.begin())) {
    return {};
  }
  return invalid(VOLLEY_REASON_SHAPE, "{} has shape {}, wanted {} = {}", name, shape_text(tensor),
                 axes, list_text(wanted.begin(), ndim));
}

Status broadcast_to(const char* name, Tensor* tensor, std::initializer_list<int64_t> wanted,
                    const char* axes) {
  Tensor full = *tensor;
  if (tensor->ndim == static_cast<int32_t>(wanted.size())) {
    for (int32_t i = 0; i < full.ndim; ++i) {
      if (full.shape[i] == 1) full.shape[i] = wanted.begin()[i];
    }
  }
  if (Status status = expect_shape(name, full, wanted, axes); !status.ok()) {
    return invalid(VOLLEY_REASON_SHAPE, "{} has shape {}, wanted {} = {} or 1 where it broadcasts",
                   name, shape_text(*tensor), axes,
                   list_text(wanted.begin(), static_cast<int64_t>(wanted.size())));
  }
  *tensor = full;  // the stride of a dim of size 1 is 0 already
  return {};
}

void insert_axis(Tensor* tensor, int axis, int64_t size) {
  for (int i = tensor->ndim; i > axis; --i) {
    tensor->shape[i] = tensor->shape[i - 1];
    tensor->stride[i] = tensor->stride[i - 1];
  }
  tensor->shape[axis] = size;
  tensor->stride[axis] = 0;
  ++tensor->ndim;
}

}  // namespace volley::core
