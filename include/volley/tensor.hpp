// SPDX-License-Identifier: BSD-3-Clause
//
// tensor.hpp: element types with their dtype codes, Tensor (a view of memory that somebody else
// owns) and view(), which makes one from a typed pointer. Part of volley.hpp, which includes it.
#ifndef VOLLEY_TENSOR_HPP
#define VOLLEY_TENSOR_HPP

#include <volley/volley.h>

#include <cstdint>
#include <initializer_list>
#include <type_traits>

namespace volley {

// ---- Element types ------------------------------------------------------------------------------

// Storage types: the bits of a number that C++17 has no type for. Conversions are yours to bring.
struct bf16 {
  std::uint16_t bits = 0;
};
struct f16 {
  std::uint16_t bits = 0;
};
struct e4m3 {  // float8 e4m3fn
  std::uint8_t bits = 0;
};
struct e8m0 {  // 2^(bits - 127)
  std::uint8_t bits = 0;
};

// dtype<T>: the VOLLEY_* code of an element type; only these types have one.
template <class T>
struct dtype_of;
#define VOLLEY_DTYPE_OF(type, code)             \
  template <>                                   \
  struct dtype_of<type> {                       \
    static constexpr std::int32_t value = code; \
  }
VOLLEY_DTYPE_OF(double, VOLLEY_F64);
VOLLEY_DTYPE_OF(float, VOLLEY_F32);
VOLLEY_DTYPE_OF(f16, VOLLEY_F16);
VOLLEY_DTYPE_OF(bf16, VOLLEY_BF16);
VOLLEY_DTYPE_OF(e4m3, VOLLEY_E4M3);
VOLLEY_DTYPE_OF(e8m0, VOLLEY_E8M0);
VOLLEY_DTYPE_OF(std::int32_t, VOLLEY_I32);
VOLLEY_DTYPE_OF(std::int64_t, VOLLEY_I64);
VOLLEY_DTYPE_OF(bool, VOLLEY_BOOL);
#undef VOLLEY_DTYPE_OF
template <class T>
inline constexpr std::int32_t dtype = dtype_of<std::remove_const_t<T>>::value;

// ---- Tensors ------------------------------------------------------------------------------------

// A view of memory that somebody else owns: a volley_tensor that can be made in one expression.
// Strides are in elements. More than 5 axes make a tensor that every call refuses.
class Tensor {
 public:
  Tensor() = default;
  Tensor(void* data, std::int32_t dtype, std::initializer_list<std::int64_t> shape) {
    c_.data = data;
    c_.dtype = dtype;
    c_.device_type = VOLLEY_DEVICE_CPU;
    c_.ndim = fill(c_.shape, shape);
    std::int64_t step = 1;
    for (std::int32_t i = c_.ndim - 1; i >= 0; --i) {
      c_.stride[i] = step;
      step *= c_.shape[i];
    }
  }
  Tensor(void* data, std::int32_t dtype, std::initializer_list<std::int64_t> shape,
         std::initializer_list<std::int64_t> stride)
      : Tensor(data, dtype, shape) {
    if (fill(c_.stride, stride) != c_.ndim) c_.ndim = -1;
  }
  explicit Tensor(const volley_tensor& tensor) : c_(tensor) {}

  // The same view, of memory on a GPU.
  Tensor on_cuda(std::int32_t device_id = 0) const {
    Tensor copy = *this;
    copy.c_.device_type = VOLLEY_DEVICE_CUDA;
    copy.c_.device_id = device_id;
    return copy;
  }

  void* data() const { return c_.data; }
  std::int32_t ndim() const { return c_.ndim; }
  std::int64_t shape(std::int32_t axis) const { return c_.shape[axis]; }
  std::int64_t stride(std::int32_t axis) const { return c_.stride[axis]; }
  const volley_tensor& c() const { return c_; }

 private:
  static std::int32_t fill(std::int64_t (&to)[5], std::initializer_list<std::int64_t> from) {
    if (from.size() > 5) return -1;
    std::int32_t n = 0;
    for (std::int64_t value : from) to[n++] = value;
    return n;
  }
  volley_tensor c_{};
};

// Typed views: dtype from the pointer. Without strides the view is contiguous. Inputs may be const:
// the library writes through o, lse and the gradients only.
template <class T>
Tensor view(T* data, std::initializer_list<std::int64_t> shape) {
  return Tensor(const_cast<std::remove_const_t<T>*>(data), dtype<T>, shape);
}
template <class T>
Tensor view(T* data, std::initializer_list<std::int64_t> shape,
            std::initializer_list<std::int64_t> stride) {
  return Tensor(const_cast<std::remove_const_t<T>*>(data), dtype<T>, shape, stride);
}

}  // namespace volley

#endif  // VOLLEY_TENSOR_HPP
