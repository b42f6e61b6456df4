// SPDX-License-Identifier: BSD-3-Clause
//
// Cases from public bug reports that need a GPU's memory or grid: more sequences than a grid
// dimension holds, offsets past 32 bits, many repeats of a backward. What a GPU backend does not
// offer must be refused with the reason that fits.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "dtype.h"
#include "random.h"
#include "runner.h"
#include "volley/volley.h"

namespace volley::check {
namespace {

using Bits = std::vector<uint16_t>;

void expect_cuda(cudaError_t error) { ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error); }

// Memory on the device, all NaN in the 16-bit formats and fp32.
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes) {
    if (cudaMalloc(&data_, bytes) != cudaSuccess) throw std::bad_alloc();
    expect_cuda(cudaMemset(data_, 0xff, bytes));
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uint16_t* data(int64_t element = 0) const { return static_cast<uint16_t*>(data_) + element; }

  // Normal values over all of it: a drawn piece again and again, its length prime.
  void fill_normal(int32_t dtype, uint64_t seed) const {
    Bits piece(1000003);
    Random random(seed);
    for (uint16_t& bits : piece) {
      const auto value = static_cast<float>(random.normal());
      bits = dtype == VOLLEY_F16 ? core::float_to_f16(value) : core::float_to_bf16(value);
    }
    for (size_t at = 0; at < bytes_; at += piece.size() * 2) {
      const size_t size = std::min(piece.size() * 2, bytes_ - at);
      expect_cuda(
          cudaMemcpy(static_cast<char*>(data_) + at, piece.data(), size, cudaMemcpyHostToDevice));
    }
  }

  Bits download(int64_t first, int64_t count) const {
    Bits result(static_cast<size_t>(count));
    expect_cuda(cudaDeviceSynchronize());
    expect_cuda(cudaMemcpy(result.data(), data(first), result.size() * 2, cudaMemcpyDeviceToHost));
    return result;
  }
  Bits download() const { return download(0, static_cast<int64_t>(bytes_ / 2)); }

  // The same bits? `page_locked` has room for them.
  bool holds(const Bits& wanted, void* page_locked) const {
    expect_cuda(cudaDeviceSynchronize());
    expect_cuda(cudaMemcpy(page_locked, data_, bytes_, cudaMemcpyDeviceToHost));
    return std::memcmp(page_locked, wanted.data(), bytes_) == 0;
  }

 private:
  size_t bytes_;
  void* data_ = nullptr;
};

volley_tensor tensor(void* data, int32_t dtype, std::vector<int64_t> shape,
                     std::vector<int64_t> stride = {}) {
  volley_tensor t{};
  t.data = data;
  t.dtype = dtype;
  t.ndim = static_cast<int32_t>(shape.size());
  t.device_type = VOLLEY_DEVICE_CUDA;
  int64_t next = 1;
  for (size_t i = shape.size(); i-- > 0; next *= shape[i]) {
    t.shape[i] = shape[i];
    t.stride[i] = stride.empty() ? next : stride[i];
  }
  return t;
}

// The bf16 tensors of a training step: q, k, v, o, dout, dq, dk, dv of these shapes, and LSE.
struct Training {
  Training(std::vector<int64_t> query_shape, std::vector<int64_t> key_shape,
           std::vector<int64_t> lse_shape)
      : lse(4 * static_cast<size_t>(elements(lse_shape))) {
    for (size_t i = 0; i < 8; ++i) {
      const std::vector<int64_t>& shape = of_keys(i) ? key_shape : query_shape;
      memory.push_back(std::make_unique<Memory>(2 * static_cast<size_t>(elements(shape))));
      views[i] = tensor(memory[i]->data(), VOLLEY_BF16, shape);
    }
    views[8] = tensor(lse.data(), VOLLEY_F32, std::move(lse_shape));
    for (const size_t i : {0, 1, 2, 4}) memory[i]->fill_normal(VOLLEY_BF16, i + 1);
  }

  static int64_t elements(const std::vector<int64_t>& shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  }
  static bool of_keys(size_t i) { return i == 1 || i == 2 || i >= 6; }

  // Makes a problem this step's forward or backward.
  void use(volley_problem* problem, int32_t op) {
    const volley_tensor** fields[] = {&problem->q,    &problem->k,  &problem->v,  &problem->o,
                                      &problem->dout, &problem->dq, &problem->dk, &problem->dv};
    problem->op = op;
    for (size_t i = 0; i < std::size(fields); ++i) {
      *fields[i] = i < 4 || op == VOLLEY_OP_BACKWARD ? &views[i] : nullptr;
    }
    problem->lse = &views[8];
  }

  std::vector<std::unique_ptr<Memory>> memory;
  Memory lse;
  volley_tensor views[9];
};

class Large : public testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override {
    std::string why;
    if (!backend_available(GetParam(), &why)) GTEST_SKIP() << why;
    volley_problem_init(&problem_);
    problem_.backend = GetParam();
  }

  // Runs problem_ on its tensors' memory; false when it was refused for one of these reasons.
  bool run(const std::vector<std::string>& reasons = {}) {
    volley_plan* plan = nullptr;
    volley_error error{};
    if (volley_plan_create(&problem_, nullptr, &plan, &error) != VOLLEY_OK) {
      EXPECT_EQ(error.code, VOLLEY_NOT_OFFERED) << error.message;
      EXPECT_EQ(std::count(reasons.begin(), reasons.end(), volley_reason_name(error.reason)), 1)
          << error.message;
      return false;
    }
    const Memory workspace(std::max<uint64_t>(volley_plan_workspace_size(plan), 2));
    volley_buffers buffers;
    volley_buffers_from_problem(&problem_, &buffers, &error);
    EXPECT_EQ(volley_run(plan, &buffers, workspace.data(), volley_plan_workspace_size(plan),
                         nullptr, &error),
              VOLLEY_OK)
        << error.message;
    expect_cuda(cudaStreamSynchronize(nullptr));
    volley_plan_destroy(plan);
    return true;
  }

  // q, k, v and o of the problem, contiguous (outer, rows, 1 head, 64) or packed, from an element.
  void set_operands(const std::vector<int64_t>& shape, int32_t dtype, const Memory& q,
                    const Memory& k, const Memory& v, const Memory& o, int64_t element) {
    const Memory* memory[] = {&q, &k, &v, &o};
    for (size_t i = 0; i < 4; ++i) views_[i] = tensor(memory[i]->data(element), dtype, shape);
    problem_.q = &views_[0], problem_.k = &views_[1];
    problem_.v = &views_[2], problem_.o = &views_[3];
  }

  void expect_repeats(Training& step, const std::string& name);
  void expect_sequences_as_alone(bool packed, int32_t dtype, int64_t sequences, int64_t tokens);

  volley_problem problem_;
  volley_tensor views_[16];
};

// FlashAttention #1786, FlashInfer #3125: all of them, or a refusal; never zeros with status OK.
void Large::expect_sequences_as_alone(bool packed, int32_t dtype, int64_t sequences,
                                      int64_t tokens) {
  const int64_t d = 64, each = tokens * d;
  const auto bytes = static_cast<size_t>(sequences * each * 2);
  const Memory q(bytes), k(bytes), v(bytes), o(bytes), alone(bytes);
  q.fill_normal(dtype, 1), k.fill_normal(dtype, 2), v.fill_normal(dtype, 3);
  std::vector<int32_t> ends(static_cast<size_t>(sequences + 1));
  for (size_t n = 0; n < ends.size(); ++n) ends[n] = static_cast<int32_t>(int64_t(n) * tokens);
  const Memory cu(ends.size() * 4);
  expect_cuda(cudaMemcpy(cu.data(), ends.data(), ends.size() * 4, cudaMemcpyHostToDevice));

  const std::vector<int64_t> dense = {sequences, tokens, 1, d};
  set_operands(packed ? std::vector<int64_t>{sequences * tokens, 1, d} : dense, dtype, q, k, v, o,
               0);
  if (packed) {
    views_[4] = tensor(cu.data(), VOLLEY_I32, {sequences + 1});
    problem_.cu_seqlens_q = problem_.cu_seqlens_k = &views_[4];
    problem_.max_seqlen_q = problem_.max_seqlen_k = tokens;
  }
  if (!run({"dtype", "varlen", "size"})) return;
  const Bits all = o.download();
  EXPECT_EQ(std::count(all.begin(), all.end(), uint16_t{0xffff}), 0) << "elements not written";
  problem_.cu_seqlens_q = problem_.cu_seqlens_k = nullptr;
  problem_.max_seqlen_q = problem_.max_seqlen_k = 0;
  for (const int64_t n : {int64_t{0}, int64_t{65535}, int64_t{65536}, sequences - 1}) {
    set_operands({1, tokens, 1, d}, dtype, q, k, v, alone, n * each);
    ASSERT_TRUE(run());
    const auto begin = all.begin() + n * each;
    EXPECT_EQ(alone.download(n * each, each), Bits(begin, begin + each)) << "sequence " << n;
  }
}

TEST_P(Large, MorePackedSequencesThanAGridDimensionHolds) {
  for (const int32_t dtype : {VOLLEY_F16, VOLLEY_BF16}) {
    expect_sequences_as_alone(true, dtype, 80000, 16);
  }
}

TEST_P(Large, MoreDenseSequencesThanAGridDimensionHolds) {
  for (const int32_t dtype : {VOLLEY_F16, VOLLEY_BF16}) {
    expect_sequences_as_alone(false, dtype, 70000, 4);
  }
}

// FlashAttention PR 2260, PR 1500: a key for each query, so o is v. Padded to tiles of 128 rows
// this has more than 2^31 elements.
TEST_P(Large, ManySequencesOfOneToken) {
  const int64_t b = 8300, h = 16, d = 128;
  const auto bytes = static_cast<size_t>(b * h * d * 2);
  const Memory q(bytes), k(bytes), v(bytes), o(bytes);
  q.fill_normal(VOLLEY_BF16, 1), k.fill_normal(VOLLEY_BF16, 2), v.fill_normal(VOLLEY_BF16, 3);
  set_operands({b, 1, h, d}, VOLLEY_BF16, q, k, v, o, 0);
  ASSERT_TRUE(run());
  EXPECT_EQ(o.download(), v.download());
}

// And dv is dout, dq and dk are 0.
TEST_P(Large, GradientsOfManySequencesOfOneToken) {
  const std::vector<int64_t> shape = {8300, 1, 16, 128};
  for (const int32_t deterministic : {0, 1}) {
    Training step(shape, shape, {8300, 16, 1});
    step.use(&problem_, VOLLEY_OP_FORWARD);
    ASSERT_TRUE(run());
    step.use(&problem_, VOLLEY_OP_BACKWARD);
    problem_.deterministic = deterministic;
    if (!run({"backward"})) return;
    EXPECT_EQ(step.memory[7]->download(), step.memory[4]->download());
    for (const size_t i : {5, 6}) {
      const Bits zeros = step.memory[i]->download();
      EXPECT_TRUE(std::all_of(zeros.begin(), zeros.end(), [](auto x) { return x % 0x8000 == 0; }));
    }
    problem_.deterministic = 0;
  }
}

// FlashAttention #772: keys and values in a cache of all layers, whose batch stride is 2^30
// elements.
TEST_P(Large, ACacheWithAHugeBatchStride) {
  const int64_t b = 4, sq = 3, sk = 300, h = 32, d = 128;
  const int64_t row = 32 * 2 * h * d, batch = 4096 * row;
  ASSERT_EQ(batch, int64_t{1} << 30);
  const auto small = static_cast<size_t>(b * sk * h * d * 2);
  const Memory cache(static_cast<size_t>((b + 1) * batch * 2));
  const Memory k(small), v(small), q(small), o(small), expected(small);
  for (const int32_t dtype : {VOLLEY_F16, VOLLEY_BF16}) {
    q.fill_normal(dtype, 1), k.fill_normal(dtype, 2), v.fill_normal(dtype, 3);
    for (int64_t n = 0; n < b; ++n) {
      for (const Memory* from : {&k, &v}) {
        const int64_t to = (n + 1) * batch + (from == &v ? h * d : 0);
        expect_cuda(cudaMemcpy2D(cache.data(to), row * 2, from->data(n * sk * h * d), h * d * 2,
                                 h * d * 2, sk, cudaMemcpyDeviceToDevice));
      }
    }
    problem_.causal = 1;
    set_operands({b, sk, h, d}, dtype, q, k, v, expected, 0);
    views_[0] = tensor(q.data(), dtype, {b, sq, h, d});
    views_[3] = tensor(expected.data(), dtype, {b, sq, h, d});
    if (!run({"dtype"})) continue;
    const std::vector<int64_t> stride = {batch, row, d, 1};
    views_[1] = tensor(cache.data(batch), dtype, {b, sk, h, d}, stride);
    views_[2] = tensor(cache.data(batch + h * d), dtype, {b, sk, h, d}, stride);
    views_[3] = tensor(o.data(), dtype, {b, sq, h, d});
    ASSERT_TRUE(run());
    EXPECT_EQ(o.download(0, b * sq * h * d), expected.download(0, b * sq * h * d));
  }
}

// 200 times the same bits, while another stream is busy.
void Large::expect_repeats(Training& step, const std::string& name) {
  step.use(&problem_, VOLLEY_OP_FORWARD);
  ASSERT_TRUE(run()) << name;
  step.use(&problem_, VOLLEY_OP_BACKWARD);
  problem_.deterministic = 1;
  ASSERT_TRUE(run()) << name;
  const size_t busy_bytes = 64 << 20;
  const Memory busy(busy_bytes);
  cudaStream_t beside = nullptr;
  expect_cuda(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
  std::vector<Bits> first;
  size_t most = 0;
  for (const size_t i : {5, 6, 7}) {
    first.push_back(step.memory[i]->download());
    most = std::max(most, first.back().size() * 2);
  }
  void* page_locked = nullptr;
  expect_cuda(cudaMallocHost(&page_locked, most));
  bool same = true;
  for (int repeat = 0; repeat < 200 && same; ++repeat) {
    for (int i = 0; i < 50; ++i) {
      expect_cuda(cudaMemsetAsync(busy.data(), i, busy_bytes, beside));
    }
    for (const size_t i : {5, 6, 7}) {
      expect_cuda(cudaMemset(step.memory[i]->data(), 0xff, first[i - 5].size() * 2));
    }
    ASSERT_TRUE(run()) << name;
    for (const size_t i : {5, 6, 7}) same &= step.memory[i]->holds(first[i - 5], page_locked);
    EXPECT_TRUE(same) << name << ", repeat " << repeat;
  }
  cudaFreeHost(page_locked);
  cudaStreamDestroy(beside);
  problem_.deterministic = 0;
}

// FlashAttention #2244, #1596, PR 1678.
TEST_P(Large, TheDeterministicBackwardRepeats) {
  if (GetParam() != VOLLEY_BACKEND_SM80) return;  // the only one with a backward
  const int64_t b = 2, s = 1024, hq = 16, hk = 2;
  const Memory cu(12);
  const int32_t ends[] = {0, 700, b * s};
  expect_cuda(cudaMemcpy(cu.data(), ends, sizeof ends, cudaMemcpyHostToDevice));
  views_[9] = tensor(cu.data(), VOLLEY_I32, {b + 1});
  for (const int64_t d : {64, 128, 256}) {
    Training dense({b, s, hq, d}, {b, s, hk, d}, {b, hq, s});
    Training packed({b * s, hq, d}, {b * s, hk, d}, {hq, b * s});
    for (const auto& [mask, causal, left, right] :
         {std::tuple("full", 0, -1, -1), std::tuple("causal", 1, -1, -1),
          std::tuple("window", 0, 128, 0)}) {
      problem_.causal = causal, problem_.window_left = left, problem_.window_right = right;
      problem_.cu_seqlens_q = problem_.cu_seqlens_k = nullptr;
      problem_.max_seqlen_q = problem_.max_seqlen_k = 0;
      expect_repeats(dense, std::string(mask) + ", d " + std::to_string(d));
      problem_.cu_seqlens_q = problem_.cu_seqlens_k = &views_[9];
      problem_.max_seqlen_q = problem_.max_seqlen_k = b * s - 700;
      expect_repeats(packed, std::string("packed ") + mask + ", d " + std::to_string(d));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Large, testing::Values(VOLLEY_BACKEND_SM80, VOLLEY_BACKEND_SM90),
                         [](const auto& test) { return volley_backend_name(test.param); });

}  // namespace
}  // namespace volley::check
