// SPDX-License-Identifier: BSD-3-Clause
//
// Cases from public bug reports that need a GPU's memory or grid: more sequences than a grid
// dimension holds, offsets past 32 bits, many repeats of a backward. What a GPU backend does not
// offer must be refused with the reason that fits.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <string>
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

// FlashAttention #2244, #1596, PR 1678: equal bits each time, also beside other work.
TEST_P(Large, TheDeterministicBackwardRepeats) {
  const int64_t b = 2, s = 1024, hq = 16, hk = 2;
  for (const int64_t d : {64, 128, 256}) {
    const auto large = static_cast<size_t>(b * s * hq * d * 2);
    const Memory q(large), k(large), v(large), o(large), dout(large);
    const Memory lse(static_cast<size_t>(b * hq * s * 4));
    const Memory dq(large), dk(large), dv(large);
    q.fill_normal(VOLLEY_BF16, 1), k.fill_normal(VOLLEY_BF16, 2);
    v.fill_normal(VOLLEY_BF16, 3), dout.fill_normal(VOLLEY_BF16, 4);
    const std::vector<int64_t> query = {b, s, hq, d}, key = {b, s, hk, d};
    const Memory* memory[] = {&q, &k, &v, &o, &dout, &dq, &dk, &dv};
    const volley_tensor** fields[] = {&problem_.q,    &problem_.k,  &problem_.v,  &problem_.o,
                                      &problem_.dout, &problem_.dq, &problem_.dk, &problem_.dv};
    for (size_t i = 0; i < std::size(memory); ++i) {
      const bool of_keys = i == 1 || i == 2 || i >= 6;
      views_[i] = tensor(memory[i]->data(), VOLLEY_BF16, of_keys ? key : query);
    }
    views_[8] = tensor(lse.data(), VOLLEY_F32, {b, hq, s});
    const auto use = [&](int32_t op, size_t count) {
      problem_.op = op;
      for (size_t i = 0; i < std::size(fields); ++i) *fields[i] = i < count ? &views_[i] : nullptr;
      problem_.lse = &views_[8];
      problem_.deterministic = op == VOLLEY_OP_BACKWARD;
    };
    use(VOLLEY_OP_FORWARD, 4);
    if (!run({"head_dim"})) continue;
    use(VOLLEY_OP_BACKWARD, 8);
    if (!run({"backward"})) continue;
    const Memory busy(64 << 20);
    cudaStream_t beside = nullptr;
    expect_cuda(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
    const Bits first[] = {dq.download(), dk.download(), dv.download()};
    for (int repeat = 0; repeat < 200; ++repeat) {
      for (int i = 0; i < 50 * (repeat % 2); ++i) {
        expect_cuda(cudaMemsetAsync(busy.data(), i, 64 << 20, beside));
      }
      ASSERT_TRUE(run());
      ASSERT_EQ(dq.download(), first[0]) << "d " << d << ", repeat " << repeat;
      ASSERT_EQ(dk.download(), first[1]) << "d " << d << ", repeat " << repeat;
      ASSERT_EQ(dv.download(), first[2]) << "d " << d << ", repeat " << repeat;
    }
    cudaStreamDestroy(beside);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Large, testing::Values(VOLLEY_BACKEND_SM80, VOLLEY_BACKEND_SM90),
                         [](const auto& test) { return volley_backend_name(test.param); });

}  // namespace
}  // namespace volley::check
