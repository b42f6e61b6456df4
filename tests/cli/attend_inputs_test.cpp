// SPDX-License-Identifier: BSD-3-Clause
//
// Every input that a file may hold reaches the library: small files whose answer is known without
// attention, because all but one key are hidden or all weigh the same.
#include <gtest/gtest.h>

#include <cmath>

#include "builder.h"
#include "command.h"
#include "temporary.h"
#include "volley/volley.h"

namespace volley::cli::test {
namespace {

constexpr int64_t kSq = 2;
constexpr int64_t kSk = 4;
constexpr int64_t kD = 8;

// k = 0: all keys weigh the same. Key j has the value j + 1 in every channel. One head.
FileBuilder uniform(int32_t dtype = VOLLEY_F32) {
  std::vector<double> v;
  for (int64_t j = 0; j < kSk; ++j) {
    for (int64_t x = 0; x < kD; ++x) v.push_back(static_cast<double>(j + 1));
  }
  FileBuilder file;
  file.fill("q", dtype, {1, kSq, 1, kD}, 1)
      .fill("k", dtype, {1, kSk, 1, kD}, 0)
      .add("v", dtype, {1, kSk, 1, kD}, v);
  return file;
}

class Inputs : public testing::Test {
 protected:
  // The output of a file, by the reference.
  FileBuilder attend(const FileBuilder& file, std::vector<std::string> flags = {}) {
    std::vector<std::string> arguments = {"attend",    file.write(folder_.path("in")),
                                          "--backend", "reference",
                                          "-o",        folder_.path("out")};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Outcome outcome = volley(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? FileBuilder(folder_.path("out")) : uniform();
  }

  // Row i of the output of a file with one head.
  double row(const FileBuilder& file, int64_t i, std::vector<std::string> flags = {}) {
    return attend(file, std::move(flags)).at("o", i * kD);
  }

  const TemporaryFolder folder_;
};

TEST_F(Inputs, Masks) {
  EXPECT_DOUBLE_EQ(row(uniform(), 0), 2.5f);
  // Bottom-right: of 2 queries and 4 keys, the first sees 3.
  EXPECT_DOUBLE_EQ(row(uniform(), 0, {"--causal"}), 2);
  EXPECT_DOUBLE_EQ(row(uniform().metadata("causal", "true"), 0), 2);
  EXPECT_DOUBLE_EQ(row(uniform().metadata("causal", "true"), 0, {"--no-causal"}), 2.5);
  EXPECT_DOUBLE_EQ(row(uniform(), 0, {"--causal", "--mask-alignment", "top_left"}), 1);
  EXPECT_DOUBLE_EQ(row(uniform(), 1, {"--window", "0,0", "--mask-offset", "1"}), 3);
  EXPECT_DOUBLE_EQ(row(uniform(), 0, {"--window", "1,-1"}), 3);  // keys 1 to 3
  EXPECT_DOUBLE_EQ(row(uniform(), 0, {"--window=-1,-1"}), 2.5);
  EXPECT_DOUBLE_EQ(row(uniform(), 0, {"--window", "-1,0"}), 2);
}

TEST_F(Inputs, ScaleAndSoftcap) {
  FileBuilder file = uniform().fill("k", VOLLEY_F32, {1, kSk, 1, kD}, 1);
  const auto lse = [&](std::vector<std::string> flags) {
    return attend(file, std::move(flags)).at("lse", 0) - std::log(4.0);
  };
  EXPECT_NEAR(lse({}), std::sqrt(8.0), 1e-5);
  EXPECT_NEAR(lse({"--scale", "2"}), 16, 1e-5);
  EXPECT_NEAR(lse({"--scale", "2", "--softcap", "4"}), 4 * std::tanh(4.0), 1e-5);
  file.metadata("scale", "0.5");
  EXPECT_NEAR(lse({}), 4, 1e-5);
}

TEST_F(Inputs, MaskAsBoolAndAsU8) {
  FileBuilder file = uniform();
  file.add("mask", VOLLEY_BOOL, {1, 1, 1, kSk}, {0, 0, 1, 0});
  EXPECT_DOUBLE_EQ(row(file, 0), 3);
  // The same file with the word BOOL made U8, as NumPy's users have it.
  const std::string path = file.write(folder_.path("in"));
  ASSERT_EQ(shell("sed -i 's/\"BOOL\"/\"U8\"  /' " + path).code, 0);
  const Outcome outcome = volley({"attend", path, "-o", folder_.path("out")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_DOUBLE_EQ(FileBuilder(folder_.path("out")).at("o", 0), 3);
}

TEST_F(Inputs, Bias) {
  FileBuilder file = uniform();
  file.add("bias", VOLLEY_F32, {1, 1, 1, kSk}, {-INFINITY, 0, -INFINITY, -INFINITY});
  EXPECT_DOUBLE_EQ(row(file, 1), 2);
}

TEST_F(Inputs, AlibiSlopes) {
  // A steep slope leaves the key at the query's own place: 1 + 2 of row 1.
  EXPECT_NEAR(row(uniform().fill("alibi_slopes", VOLLEY_F32, {1}, 100), 1), 4, 1e-6);
}

TEST_F(Inputs, Sink) {
  // Logits are 0; a sink of log 4 doubles the sum.
  EXPECT_NEAR(row(uniform().fill("sink", VOLLEY_F32, {1}, std::log(4.0)), 0), 1.25, 1e-6);
}

TEST_F(Inputs, UsedLengths) {
  FileBuilder file = uniform();
  file.fill("seqused_k", VOLLEY_I32, {1}, 2).fill("seqused_q", VOLLEY_I32, {1}, 1);
  const FileBuilder out = attend(file);
  EXPECT_DOUBLE_EQ(out.at("o", 0), 1.5);
  EXPECT_DOUBLE_EQ(out.at("o", kD), 0);
  EXPECT_EQ(out.at("lse", 1), -INFINITY);
}

TEST_F(Inputs, SeparateCumulativeLengths) {
  FileBuilder file = uniform();
  const FileBuilder dense = uniform();
  std::vector<double> v;
  for (int64_t i = 0; i < kSk * kD; ++i) v.push_back(dense.at("v", i));
  file.fill("q", VOLLEY_F32, {kSq, 1, kD}, 1)
      .fill("k", VOLLEY_F32, {kSk, 1, kD}, 0)
      .add("v", VOLLEY_F32, {kSk, 1, kD}, v)
      .add("cu_seqlens_q", VOLLEY_I32, {3}, {0, 1, 2})
      .add("cu_seqlens_k", VOLLEY_I32, {3}, {0, 1, 4});
  const FileBuilder out = attend(file);
  EXPECT_DOUBLE_EQ(out.at("o", 0), 1);
  EXPECT_DOUBLE_EQ(out.at("o", kD), 3);
  EXPECT_EQ(out.shape("lse"), (std::vector<int64_t>{1, kSq}));
}

TEST_F(Inputs, PageTable) {
  // Pages of 2 rows, of which a third is nobody's; its rows are NaN.
  FileBuilder file = uniform();
  std::vector<double> v;
  for (const double value : std::vector<double>{3, 4, NAN, NAN, 1, 2}) v.insert(v.end(), kD, value);
  file.fill("k", VOLLEY_F32, {3, 2, 1, kD}, 0)
      .add("v", VOLLEY_F32, {3, 2, 1, kD}, v)
      .add("page_table", VOLLEY_I32, {1, 2}, {2, 0})
      .fill("seqused_k", VOLLEY_I32, {1}, 3);
  EXPECT_DOUBLE_EQ(row(file, 0), 2);
}

TEST_F(Inputs, DescalesOfBothTypes) {
  FileBuilder file = uniform(VOLLEY_E4M3);
  file.fill("q_descale", VOLLEY_F32, {1, 1, 1}, 1)
      .fill("k_descale", VOLLEY_F32, {1, 1, 1}, 1)
      .fill("v_descale", VOLLEY_F32, {1, 1, 1}, 3);
  const FileBuilder out = attend(file);
  EXPECT_DOUBLE_EQ(out.at("o", 0), 7.5);
  EXPECT_EQ(out.dtype("o"), VOLLEY_BF16);
  file.fill("v_descale", VOLLEY_E8M0, {1, 1, 1}, 128);  // 2^1
  EXPECT_DOUBLE_EQ(row(file, 0), 5);
}

TEST_F(Inputs, EmptySequences) {
  FileBuilder file;
  file.fill("q", VOLLEY_F32, {1, kSq, 1, kD}, 1)
      .fill("k", VOLLEY_F32, {1, 0, 1, kD}, 0)
      .fill("v", VOLLEY_F32, {1, 0, 1, kD}, 0);
  const FileBuilder out = attend(file);
  EXPECT_EQ(out.at("o", 0), 0);
  EXPECT_EQ(out.at("lse", 1), -INFINITY);
}

}  // namespace
}  // namespace volley::cli::test
