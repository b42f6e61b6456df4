// SPDX-License-Identifier: BSD-3-Clause
//
// Encoding of tensor maps. The driver's function is looked up through the runtime, so that the
// library has no link to libcuda and loads on machines without a driver.
#include "cuda/tensor_map.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace volley::cuda {
namespace {

static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));
static_assert(alignof(TensorMap) >= alignof(CUtensorMap));

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

EncodeTiled find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                             12000, cudaEnableDefault, &found);
#else
  const cudaError_t error =
      cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<EncodeTiled>(function);
}

// In bytes. Where there is one element, any legal stride will do; 0 over several is a broadcast.
cuuint64_t stride_bytes(i64 elements, i64 extent) {
  return extent == 1 ? 16 : static_cast<cuuint64_t>(elements) * 2;
}

}  // namespace

core::Status encode_tensor_map(const TensorGeometry& tensor, TensorMap* out) {
  static const EncodeTiled encode = find_encoder();
  if (encode == nullptr) {
    return core::make_status(VOLLEY_DEVICE_ERROR, VOLLEY_REASON_DEVICE,
                             "the driver has no cuTensorMapEncodeTiled: CUDA 12.0 or newer is "
                             "needed for the sm90 backend");
  }
  const cuuint64_t extent[5] = {
      64, static_cast<cuuint64_t>(tensor.rows), static_cast<cuuint64_t>(tensor.d / 64),
      static_cast<cuuint64_t>(tensor.heads), static_cast<cuuint64_t>(tensor.batch)};
  const cuuint64_t stride[4] = {stride_bytes(tensor.stride.row, tensor.rows), 128,
                                stride_bytes(tensor.stride.head, tensor.heads),
                                stride_bytes(tensor.stride.batch, tensor.batch)};
  const cuuint32_t box[5] = {64, static_cast<cuuint32_t>(tensor.box_rows),
                             static_cast<cuuint32_t>(tensor.d / 64), 1, 1};
  const cuuint32_t every[5] = {1, 1, 1, 1, 1};
  const CUresult result =
      encode(reinterpret_cast<CUtensorMap*>(out),
             tensor.element == Element::kBf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                              : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
             5, const_cast<void*>(tensor.data), extent, stride, box, every,
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

}  // namespace volley::cuda
