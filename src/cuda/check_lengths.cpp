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

core::Status failed(Role role, const char* why) {
  cudaGetLastError();  // reported here
  return core::make_status(VOLLEY_DEVICE_ERROR, VOLLEY_REASON_DEVICE,
                           "VOLLEY_CHECK=1 cannot read {}: {}", core::info(role).name, why);
}

core::Status fetch(Role role, const void* data, cudaStream_t stream, std::vector<int32_t>* out) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &capture) != cudaSuccess ||
      capture != cudaStreamCaptureStatusNone) {
    return failed(role, "the stream is being captured");
  }
  cudaError_t error = cudaMemcpyAsync(out->data(), data, out->size() * sizeof(int32_t),
                                      cudaMemcpyDeviceToHost, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  return error == cudaSuccess ? core::Status{} : failed(role, cudaGetErrorString(error));
}

}  // namespace

bool checks_lengths() {
  const char* value = std::getenv("VOLLEY_CHECK");
  return value != nullptr && std::string_view(value) == "1";
}

core::Status check_lengths(const core::Problem& problem, const core::Buffers& buffers,
                           void* stream) {
  core::Buffers copies = buffers;
  std::vector<int32_t> arrays[std::size(kLengths)];
  for (size_t i = 0; i < std::size(kLengths); ++i) {
    if (!problem.has(kLengths[i])) continue;
    arrays[i].resize(static_cast<size_t>(problem[kLengths[i]].shape[0]));
    VOLLEY_TRY(
        fetch(kLengths[i], buffers[kLengths[i]], static_cast<cudaStream_t>(stream), &arrays[i]));
    copies.data[static_cast<size_t>(kLengths[i])] = arrays[i].data();
  }
  return core::check_contents(problem, copies);
}

}  // namespace volley::cuda
