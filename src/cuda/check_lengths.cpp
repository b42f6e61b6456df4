// SPDX-License-Identifier: BSD-3-Clause
#include "cuda/check_lengths.h"

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "cpu/contents.h"

namespace volley::cuda {
namespace {

using core::Role;

constexpr Role kLengths[] = {Role::kCuSeqlensQ, Role::kCuSeqlensK, Role::kSequsedQ,
                             Role::kSequsedK};

// The elements in order, whatever the stride.
cudaError_t fetch(const core::Tensor& tensor, const void* data, cudaStream_t stream,
                  std::vector<int32_t>* out) {
  out->resize(static_cast<size_t>(tensor.shape[0]));
  const auto* from = static_cast<const int32_t*>(data);
  for (size_t i = 0; i < out->size(); ++i) {
    const cudaError_t error =
        cudaMemcpyAsync(out->data() + i, from + static_cast<int64_t>(i) * tensor.stride[0],
                        sizeof(int32_t), cudaMemcpyDeviceToHost, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaStreamSynchronize(stream);
}

}  // namespace

bool checks_lengths() {
  const char* value = std::getenv("VOLLEY_CHECK");
  return value != nullptr && std::string_view(value) == "1";
}

core::Status check_lengths(const core::Problem& problem, const core::Buffers& buffers,
                           void* stream) {
  core::Problem on_host = problem;
  core::Buffers copies = buffers;
  std::vector<int32_t> arrays[std::size(kLengths)];
  for (size_t i = 0; i < std::size(kLengths); ++i) {
    if (!problem.has(kLengths[i])) continue;
    core::Tensor& tensor = on_host[kLengths[i]];
    const cudaError_t error =
        fetch(tensor, buffers[kLengths[i]], static_cast<cudaStream_t>(stream), &arrays[i]);
    if (error != cudaSuccess) {
      cudaGetLastError();  // reported here
      return core::make_status(VOLLEY_DEVICE_ERROR, VOLLEY_REASON_DEVICE,
                               "VOLLEY_CHECK=1 cannot read {}: {}", core::info(kLengths[i]).name,
                               cudaGetErrorString(error));
    }
    tensor.stride[0] = tensor.shape[0] > 1 ? 1 : 0;
    copies.data[static_cast<size_t>(kLengths[i])] = arrays[i].data();
  }
  return core::check_contents(on_host, copies);
}

}  // namespace volley::cuda
