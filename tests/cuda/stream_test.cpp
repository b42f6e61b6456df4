// SPDX-License-Identifier: BSD-3-Clause
//
// What volley.h promises around streams: a run can be captured in a CUDA graph and replayed on new
// inputs, one plan serves many threads and streams, every device of the machine works whichever is
// current, and memory of another place is refused without harm. Results are compared by their bits.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "device_memory.h"
#include "dtype.h"
#include "random.h"
#include "volley/volley.h"

namespace volley::check {
namespace {

constexpr int64_t kB = 2, kS = 300, kHq = 4, kHk = 2, kD = 64;
using Bits = std::vector<uint16_t>;

void expect_cuda(cudaError_t error) { ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

Bits normal(uint64_t seed, int64_t heads) {
  Random random(seed);
  Bits values(static_cast<size_t>(kB * kS * heads * kD));
  for (uint16_t& bits : values) bits = core::float_to_bf16(static_cast<float>(random.normal()));
  return values;
}

// One call's memory on one device, o poisoned.
struct Call {
  explicit Call(int device_id) : device(device_id) {
    expect_cuda(cudaSetDevice(device));
    for (void** memory : {&q, &o}) expect_cuda(cudaMalloc(memory, bytes(kHq)));
    for (void** memory : {&k, &v}) expect_cuda(cudaMalloc(memory, bytes(kHk)));
    expect_cuda(cudaMalloc(&lse, kB * kHq * kS * sizeof(float)));
    expect_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    fill(1);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    for (void* memory : {q, k, v, o, lse}) cudaFree(memory);
    cudaStreamDestroy(stream);
  }

  static size_t bytes(int64_t heads) { return static_cast<size_t>(kB * kS * heads * kD) * 2; }

  void fill(uint64_t seed) {
    const auto upload = [](void* to, const Bits& from) {
      expect_cuda(cudaMemcpy(to, from.data(), from.size() * 2, cudaMemcpyHostToDevice));
    };
    upload(q, normal(seed, kHq));
    upload(k, normal(seed + 1, kHk));
    upload(v, normal(seed + 2, kHk));
    expect_cuda(cudaMemset(o, 0xff, bytes(kHq)));
    expect_cuda(cudaDeviceSynchronize());
  }

  volley_buffers buffers() const {
    volley_buffers result;
    volley_buffers_init(&result);
    result.q = q, result.k = k, result.v = v, result.o = o, result.lse = lse;
    return result;
  }

  int32_t run(const volley_plan* plan, volley_error* error) const {
    const volley_buffers in = buffers();
    return volley_run(plan, &in, nullptr, 0, stream, error);
  }

  Bits output() const {
    expect_cuda(cudaStreamSynchronize(stream));
    Bits result(bytes(kHq) / 2);
    expect_cuda(cudaMemcpy(result.data(), o, bytes(kHq), cudaMemcpyDeviceToHost));
    return result;
  }

  int device;
  void *q = nullptr, *k = nullptr, *v = nullptr, *o = nullptr, *lse = nullptr;
  cudaStream_t stream = nullptr;
};

volley_tensor tensor(int device, int32_t dtype, std::vector<int64_t> shape) {
  volley_tensor result{};
  result.dtype = dtype;
  result.ndim = static_cast<int32_t>(shape.size());
  result.device_type = VOLLEY_DEVICE_CUDA;
  result.device_id = device;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
    result.shape[i] = shape[i];
    result.stride[i] = stride;
  }
  return result;
}

volley_plan* make_plan(int32_t backend, int device, int32_t max_sms = 0) {
  const volley_tensor query = tensor(device, VOLLEY_BF16, {kB, kS, kHq, kD});
  const volley_tensor key = tensor(device, VOLLEY_BF16, {kB, kS, kHk, kD});
  const volley_tensor lse = tensor(device, VOLLEY_F32, {kB, kHq, kS});
  volley_problem problem;
  volley_problem_init(&problem);
  problem.backend = backend;
  problem.q = problem.o = &query;
  problem.k = problem.v = &key;
  problem.lse = &lse;
  problem.causal = 1;
  problem.max_sms = max_sms;
  volley_plan* plan = nullptr;
  volley_error error{};
  EXPECT_EQ(volley_plan_create(&problem, nullptr, &plan, &error), VOLLEY_OK) << error.message;
  return plan;
}

class Stream : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override {
    std::string why;
    if (!gpu_available(&why)) GTEST_SKIP() << why;
    expect_cuda(cudaSetDevice(0));
    plan_ = make_plan(GetParam(), 0);
    ASSERT_NE(plan_, nullptr);
  }
  void TearDown() override { volley_plan_destroy(plan_); }

  // What a call of its own gives for these inputs.
  Bits expected(uint64_t seed) {
    Call call(0);
    call.fill(seed);
    EXPECT_EQ(call.run(plan_, &error_), VOLLEY_OK) << error_.message;
    return call.output();
  }

  volley_plan* plan_ = nullptr;
  volley_error error_{};
};

TEST_P(Stream, ACapturedRunReplaysOnNewInputs) {
  Call call(0);
  expect_cuda(cudaStreamBeginCapture(call.stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < 20; ++i) ASSERT_EQ(call.run(plan_, &error_), VOLLEY_OK) << error_.message;
  cudaGraph_t graph = nullptr;
  expect_cuda(cudaStreamEndCapture(call.stream, &graph));
  cudaGraphExec_t replay = nullptr;
  expect_cuda(cudaGraphInstantiate(&replay, graph, 0));
  for (const uint64_t seed : {1, 50}) {
    call.fill(seed);
    expect_cuda(cudaGraphLaunch(replay, call.stream));
    EXPECT_EQ(call.output(), expected(seed)) << "seed " << seed;
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
}

TEST_P(Stream, OnePlanServesManyThreadsAndStreams) {
  const Bits want = expected(1);
  std::vector<int> wrong(8, 0);
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&count, &want, plan = plan_] {
      Call call(0);
      for (int i = 0; i < 50; ++i) {
        cudaMemsetAsync(call.o, 0xff, Call::bytes(kHq), call.stream);
        count += call.run(plan, nullptr) != VOLLEY_OK;
        count += call.output() != want;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) EXPECT_EQ(count, 0);
}

TEST_P(Stream, EveryDeviceWorksWhicheverIsCurrent) {
  const Bits want = expected(1);
  int devices = 0;
  expect_cuda(cudaGetDeviceCount(&devices));
  for (int id = 0; id < devices; ++id) {
    Call call(id);
    const int current = devices - 1 - id;
    expect_cuda(cudaSetDevice(current));
    volley_plan* plan = make_plan(GetParam(), id);
    ASSERT_EQ(call.run(plan, &error_), VOLLEY_OK) << error_.message;
    int after = -1;
    expect_cuda(cudaGetDevice(&after));
    EXPECT_EQ(after, current);
    EXPECT_EQ(call.output(), want) << "cuda:" << id;
    volley_plan_destroy(plan);
    if (id > 0) {
      EXPECT_EQ(call.run(plan_, &error_), VOLLEY_INVALID_ARGUMENT);
      EXPECT_EQ(error_.reason, VOLLEY_REASON_DEVICE);
    }
  }
}

TEST_P(Stream, AnyNumberOfSmsGivesTheSameBits) {
  const Bits want = expected(1);
  for (const int32_t max_sms : {1, 2, 7, 131, 1000}) {
    volley_plan* plan = make_plan(GetParam(), 0, max_sms);
    Call call(0);
    ASSERT_EQ(call.run(plan, &error_), VOLLEY_OK) << error_.message;
    EXPECT_EQ(call.output(), want) << max_sms << " SMs";
    volley_plan_destroy(plan);
  }
}

// A plan that comes out of the cache again is as good as the first.
TEST_P(Stream, ThreadsPlanAndRunAtOnce) {
  const Bits want = expected(1);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int& count : wrong) {
    threads.emplace_back([&count, &want, backend = GetParam()] {
      Call call(0);
      for (int i = 0; i < 50; ++i) {
        volley_plan* plan = make_plan(backend, 0, 1 + i % 3);
        cudaMemsetAsync(call.o, 0xff, Call::bytes(kHq), call.stream);
        count += call.run(plan, nullptr) != VOLLEY_OK;
        volley_plan_destroy(plan);
        count += call.output() != want;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) EXPECT_EQ(count, 0);
}

TEST_P(Stream, HostMemoryIsRefusedAndTheNextCallWorks) {
  Call call(0);
  const Bits untouched = call.output();
  const Bits host = normal(1, kHk);
  volley_buffers buffers = call.buffers();
  buffers.k = reinterpret_cast<const void*>((reinterpret_cast<uintptr_t>(host.data()) + 15) &
                                            ~uintptr_t{15});
  EXPECT_EQ(volley_run(plan_, &buffers, nullptr, 0, call.stream, &error_), VOLLEY_INVALID_ARGUMENT);
  EXPECT_EQ(error_.reason, VOLLEY_REASON_DEVICE) << error_.message;
  EXPECT_EQ(call.output(), untouched);
  ASSERT_EQ(call.run(plan_, &error_), VOLLEY_OK) << error_.message;
  EXPECT_EQ(call.output(), expected(1));
}

INSTANTIATE_TEST_SUITE_P(Backends, Stream,
                         testing::Values(VOLLEY_BACKEND_SM80, VOLLEY_BACKEND_SM90),
                         [](const auto& test) { return volley_backend_name(test.param); });

}  // namespace
}  // namespace volley::check
