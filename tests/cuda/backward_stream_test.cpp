// SPDX-License-Identifier: BSD-3-Clause
//
// A backward is several launches and a workspace: captured in a CUDA graph it replays on new
// inputs, and a workspace in host memory is refused without harm. o and LSE are inputs like the
// others here, of no forward. Results are compared by their bits.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "device_memory.h"
#include "dtype.h"
#include "random.h"
#include "volley/volley.h"

namespace volley::check {
namespace {

constexpr int64_t kS = 300, kHeads = 3, kD = 64, kElements = 2 * kS * kHeads * kD;
using Bits = std::vector<uint16_t>;

void expect_cuda(cudaError_t error) { ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

// dq, dk and dv of two sequences, on a stream of their own. Tensors: q, k, v, o, dout, dq, dk, dv.
class BackwardCall {
 public:
  explicit BackwardCall(bool deterministic) {
    volley_tensor view{};
    view.dtype = VOLLEY_BF16;
    view.device_type = VOLLEY_DEVICE_CUDA;
    view.ndim = 4;
    set(view.shape, {2, kS, kHeads, kD});
    set(view.stride, {kS * kHeads * kD, kHeads * kD, kD, 1});
    for (size_t i = 0; i < views_.size(); ++i) {
      expect_cuda(cudaMalloc(&memory_[i], kElements * 2));
      views_[i] = view;
      views_[i].data = memory_[i];
    }
    expect_cuda(cudaMalloc(&memory_[8], 2 * kHeads * kS * sizeof(float)));
    lse_ = view;
    lse_.data = memory_[8];
    lse_.dtype = VOLLEY_F32;
    lse_.ndim = 3;
    set(lse_.shape, {2, kHeads, kS});
    set(lse_.stride, {kHeads * kS, kS, 1});
    volley_problem problem;
    volley_problem_init(&problem);
    problem.op = VOLLEY_OP_BACKWARD;
    problem.backend = VOLLEY_BACKEND_SM80;
    problem.causal = 1;
    problem.deterministic = deterministic ? 1 : 0;
    const volley_tensor** fields[] = {&problem.q,    &problem.k,  &problem.v,  &problem.o,
                                      &problem.dout, &problem.dq, &problem.dk, &problem.dv};
    for (size_t i = 0; i < views_.size(); ++i) *fields[i] = &views_[i];
    problem.lse = &lse_;
    volley_error error{};
    EXPECT_EQ(volley_plan_create(&problem, nullptr, &plan_, &error), VOLLEY_OK) << error.message;
    volley_buffers_from_problem(&problem, &buffers_, &error);
    expect_cuda(cudaMalloc(&workspace_, workspace_size()));
    expect_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  BackwardCall(const BackwardCall&) = delete;
  BackwardCall& operator=(const BackwardCall&) = delete;
  ~BackwardCall() {
    volley_plan_destroy(plan_);
    for (void* memory : memory_) cudaFree(memory);
    cudaFree(workspace_);
    cudaStreamDestroy(stream);
  }

  uint64_t workspace_size() const { return volley_plan_workspace_size(plan_); }

  // New inputs; outputs and workspace are poisoned.
  void fill(uint64_t seed) {
    Random random(seed);
    const std::vector<float> lse(2 * kHeads * kS, 6.f + static_cast<float>(seed));
    for (size_t i = 0; i < 5; ++i) {
      Bits values(kElements);
      for (uint16_t& x : values) x = core::float_to_bf16(static_cast<float>(random.normal()));
      expect_cuda(cudaMemcpy(memory_[i], values.data(), kElements * 2, cudaMemcpyHostToDevice));
    }
    expect_cuda(cudaMemcpy(memory_[8], lse.data(), lse.size() * 4, cudaMemcpyHostToDevice));
    for (size_t i = 5; i < 8; ++i) expect_cuda(cudaMemset(memory_[i], 0xff, kElements * 2));
    expect_cuda(cudaMemset(workspace_, 0xff, workspace_size()));
    expect_cuda(cudaDeviceSynchronize());
  }

  int32_t run(void* workspace, volley_error* error) {
    return volley_run(plan_, &buffers_, workspace, workspace_size(), stream, error);
  }
  void run() {
    volley_error error{};
    EXPECT_EQ(run(workspace_, &error), VOLLEY_OK) << error.message;
  }

  // dk and dv, and dq where its order is fixed.
  std::vector<Bits> results(bool with_dq) const {
    expect_cuda(cudaStreamSynchronize(stream));
    std::vector<Bits> all;
    for (size_t i = with_dq ? 5 : 6; i < 8; ++i) {
      all.emplace_back(kElements);
      expect_cuda(cudaMemcpy(all.back().data(), memory_[i], kElements * 2, cudaMemcpyDeviceToHost));
    }
    return all;
  }

  cudaStream_t stream = nullptr;

 private:
  static void set(int64_t* to, const std::vector<int64_t>& from) {
    std::copy(from.begin(), from.end(), to);
  }

  std::array<void*, 9> memory_{};
  void* workspace_ = nullptr;
  std::array<volley_tensor, 8> views_{};
  volley_tensor lse_{};
  volley_buffers buffers_{};
  volley_plan* plan_ = nullptr;
};

class BackwardStream : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    std::string why;
    if (!gpu_available(&why)) GTEST_SKIP() << why;
  }
};

TEST_P(BackwardStream, ACapturedRunReplaysOnNewInputs) {
  const bool deterministic = GetParam();
  BackwardCall call(deterministic);
  std::vector<std::vector<Bits>> expected;
  for (const uint64_t seed : {1, 2}) {
    call.fill(seed);
    call.run();
    expected.push_back(call.results(deterministic));
  }
  EXPECT_NE(expected[0], expected[1]);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  expect_cuda(cudaStreamBeginCapture(call.stream, cudaStreamCaptureModeThreadLocal));
  call.run();
  expect_cuda(cudaStreamEndCapture(call.stream, &graph));
  expect_cuda(cudaGraphInstantiate(&replay, graph, 0));
  for (const uint64_t seed : {2, 1, 2}) {
    call.fill(seed);
    expect_cuda(cudaGraphLaunch(replay, call.stream));
    EXPECT_EQ(call.results(deterministic), expected[seed - 1]) << "seed " << seed;
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
}

TEST_P(BackwardStream, AWorkspaceInHostMemoryIsRefusedAndTheNextCallWorks) {
  BackwardCall call(GetParam());
  call.fill(1);
  const std::vector<Bits> untouched = call.results(true);
  std::vector<char> host(call.workspace_size() + 256);
  const auto aligned = (reinterpret_cast<uintptr_t>(host.data()) + 255) & ~uintptr_t{255};
  volley_error error{};
  EXPECT_EQ(call.run(reinterpret_cast<void*>(aligned), &error), VOLLEY_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.message).find("workspace is in host memory"), std::string::npos)
      << error.message;
  EXPECT_EQ(call.results(true), untouched);
  call.run();
  EXPECT_NE(call.results(true), untouched);
}

INSTANTIATE_TEST_SUITE_P(Deterministic, BackwardStream, testing::Bool());

}  // namespace
}  // namespace volley::check
