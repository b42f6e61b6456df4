// SPDX-License-Identifier: BSD-3-Clause
//
// Encoding of tensor maps. A map's format is the driver's secret; that an address is its first word
// is not assumed but looked at, for each operand of each plan.
#include "cuda/tensor_map.h"

#include <cuda.h>

#include <algorithm>
#include <array>

#include "cuda/driver.h"

namespace volley::cuda {
namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));
static_assert(alignof(TensorMap) >= alignof(CUtensorMap));

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// In bytes. Where there is one element, any legal stride will do; 0 over several is a broadcast.
cuuint64_t stride_bytes(i64 elements, i64 extent) {
  return extent == 1 ? 16 : static_cast<cuuint64_t>(elements) * 2;
}

// Multiples of 16 that differ in every bit that an address may have: all of them are tried, so that
// a rule for certain alignments would show too.
constexpr std::array<u64, 4> kProbes = {0x7f0000000000, 0x00ffffffe000, 0x555555555550,
                                        0x2aaaaaaaaa80};

// `from` with its first word exchanged.
TensorMap moved(const TensorMap& from, u64 address) {
  TensorMap map = from;
  map.words[0] = address;
  return map;
}

}  // namespace

core::Status encode_tensor_map(const TensorGeometry& tensor, TensorMap* out) {
  static const auto encode = driver_function<EncodeTiled>("cuTensorMapEncodeTiled", 12000);
  if (encode == nullptr) {
    return core::make_status(VOLLEY_DEVICE_ERROR, VOLLEY_REASON_DEVICE,
                             "the driver has no cuTensorMapEncodeTiled: CUDA 12.0 or newer is "
                             "needed for the sm90 backend");
  }
  const cuuint64_t extent[4] = {
      static_cast<cuuint64_t>(tensor.d), static_cast<cuuint64_t>(tensor.rows),
      static_cast<cuuint64_t>(tensor.heads), static_cast<cuuint64_t>(tensor.batch)};
  const cuuint64_t stride[3] = {stride_bytes(tensor.stride.row, tensor.rows),
                                stride_bytes(tensor.stride.head, tensor.heads),
                                stride_bytes(tensor.stride.batch, tensor.batch)};
  const cuuint32_t box[4] = {kChunk, static_cast<cuuint32_t>(tensor.box_rows), 1, 1};
  const cuuint32_t every[4] = {1, 1, 1, 1};
  const CUresult result =
      encode(reinterpret_cast<CUtensorMap*>(out),
             tensor.element == Element::kBf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                              : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
             4, const_cast<void*>(tensor.data), extent, stride, box, every,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return {};
  return core::make_status(
      VOLLEY_DEVICE_ERROR, VOLLEY_REASON_STRIDE,
      "the driver refused (error {}) a tensor map of {}: address {}, shape ({}, {}, {}, {}), "
      "strides ({}, {}, {}, 1), {} rows a tile",
      static_cast<int>(result), tensor.name, tensor.data, tensor.batch, tensor.rows, tensor.heads,
      tensor.d, tensor.stride.batch, tensor.stride.row, tensor.stride.head, tensor.box_rows);
}

OperandMap make_operand_map(const TensorGeometry& tensor) {
  OperandMap operand{.tensor = tensor, .map = {}, .movable = true};
  for (const u64 address : kProbes) {
    TensorMap map{};
    operand.tensor.data = reinterpret_cast<const void*>(address);
    const bool encoded = encode_tensor_map(operand.tensor, &map).ok();
    if (address == kProbes[0]) operand.map = map;
    operand.movable = operand.movable && encoded &&
                      std::ranges::equal(moved(operand.map, address).words, map.words);
  }
  return operand;
}

core::Status map_at(const OperandMap& operand, const void* data, TensorMap* out) {
  if (operand.movable) {
    *out = moved(operand.map, reinterpret_cast<uintptr_t>(data));
    return {};
  }
  TensorGeometry tensor = operand.tensor;
  tensor.data = data;
  return encode_tensor_map(tensor, out);
}

}  // namespace volley::cuda
