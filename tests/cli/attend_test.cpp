// SPDX-License-Identifier: BSD-3-Clause
//
// `volley attend` on the real files of tests/data: right on every CPU backend, and seen to be wrong
// when it is. What it refuses is in attend_errors_test.cpp, every input in attend_inputs_test.cpp.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "builder.h"
#include "command.h"
#include "temporary.h"
#include "volley/volley.h"

namespace volley::cli::test {
namespace {

using nlohmann::json;

constexpr const char* kFiles[] = {"smollm2_135m_layer15", "smollm2_135m_long", "minilm_l6_layer0",
                                  "minilm_l6_layer5"};

class RealFile : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(RealFile, IsWithinTheRule) {
  const auto [name, backend] = GetParam();
  const Outcome outcome = volley({"attend", data_file(name), "--backend", backend, "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report.at("plan").at("backend"), backend);
  EXPECT_GE(report.at("runs").get<int>(), 1);
  EXPECT_GT(report.at("seconds").get<double>(), 0);
  for (const char* tensor : {"o", "lse"}) {
    const json& deviation = report.at("deviation").at(tensor);
    EXPECT_TRUE(deviation.at("ok").get<bool>()) << deviation;
    EXPECT_LE(deviation.at("max_error").get<double>(), deviation.at("max_allowed").get<double>());
  }
  // Exactly right would mean that nothing was compared: o is rounded to 16 bits.
  EXPECT_GT(report.at("deviation").at("o").at("max_error").get<double>(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, RealFile, testing::Combine(testing::ValuesIn(kFiles), testing::Values("reference", "cpu")),
    [](const testing::TestParamInfo<RealFile::ParamType>& param) {
      return std::string(std::get<0>(param.param)) + "_" + std::get<1>(param.param);
    });

TEST(Attend, CountsTheWorkThatTheMaskLeaves) {
  const auto flops = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"attend", data_file("smollm2_135m_layer15"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return json::parse(volley(arguments).out).at("flops").get<double>();
  };
  EXPECT_EQ(flops({}), 2.0 * 128 * 9 * (433.0 * 434 / 2));
  EXPECT_EQ(flops({"--no-causal"}), 2.0 * 128 * 9 * 433 * 433);
  EXPECT_EQ(flops({"--window", "0,0"}), 2.0 * 128 * 9 * 433);
}

TEST(Attend, TextTellsPlanTimeAndDeviation) {
  const Outcome outcome = volley({"attend", data_file("minilm_l6_layer0"), "--backend", "cpu"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* word : {"backend      cpu", "workspace", "time    ", "median of ", "FLOP/s",
                           "o            max error", "lse          max error", "allowed"}) {
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word << " in\n" << outcome.out;
  }
}

// Flags that contradict the file give another attention, which the answer in the file shows.
TEST(Attend, FlagsBeatMetadata) {
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"--no-causal"},
                                                {"--scale", "1"},
                                                {"--window", "64,0"},
                                                {"--softcap", "1"},
                                                {"--mask-offset", "5"}}) {
    std::vector<std::string> arguments = {"attend", data_file("smollm2_135m_layer15")};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Outcome outcome = volley(arguments);
    EXPECT_EQ(outcome.code, 3) << flags[0];
    EXPECT_TRUE(is_one_sentence(outcome.err)) << outcome.err;
    EXPECT_NE(outcome.out.find("DEVIATES"), std::string::npos) << outcome.out;
  }
  // As a flag what the metadata say anyway.
  EXPECT_EQ(volley({"attend", data_file("smollm2_135m_layer15"), "--causal", "--scale", "0.125",
                    "--mask-alignment", "top_left"})
                .code,
            0);
}

TEST(Attend, WithoutMetadataItIsFullAttentionAtTheDefaultScale) {
  const TemporaryFolder folder;
  FileBuilder file;
  const FileBuilder real(data_file("minilm_l6_layer5"));
  for (const char* name : {"q", "k", "v", "o_model", "cu_seqlens"}) file.copy(name, real, name);
  EXPECT_EQ(volley({"attend", file.write(folder.path("x"))}).code, 0);
}

TEST(Attend, AWrongAnswerInTheFileExitsWith3) {
  const TemporaryFolder folder;
  FileBuilder file(data_file("smollm2_135m_layer15"));
  const int64_t at = 200 * 9 * 64 + 5 * 64 + 7;
  file.set("o_model", at, file.at("o_model", at) + 0.25);
  Outcome outcome = volley({"attend", file.write(folder.path("x"))});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_NE(outcome.out.find("200"), std::string::npos) << "the worst place: " << outcome.out;

  FileBuilder lse(data_file("smollm2_135m_layer15"));
  lse.set("lse", 77, lse.at("lse", 77) + 0.01);
  outcome = volley({"attend", lse.write(folder.path("x")), "--json"});
  EXPECT_EQ(outcome.code, 3);
  const json deviation = json::parse(outcome.out).at("deviation");
  EXPECT_TRUE(deviation.at("o").at("ok").get<bool>());
  EXPECT_FALSE(deviation.at("lse").at("ok").get<bool>());
}

TEST(Attend, AnUnknownTensorIsAWarning) {
  const TemporaryFolder folder;
  FileBuilder file(data_file("minilm_l6_layer0"));
  file.fill("q_weight", VOLLEY_F32, {3}, 1);
  const std::string path = file.write(folder.path("x"));
  const Outcome outcome = volley({"attend", path});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(is_one_sentence(outcome.err)) << outcome.err;
  EXPECT_NE(outcome.err.find("warning: tensor 'q_weight' is not used"), std::string::npos);
  const json report = json::parse(volley({"attend", path, "--json"}).out);
  EXPECT_EQ(report.at("warnings").size(), 1u);
}

TEST(Attend, WritesWhatItComputed) {
  const TemporaryFolder folder;
  const std::string input = data_file("smollm2_135m_layer15");
  const std::string output = folder.path("out.safetensors");
  const Outcome outcome = volley({"attend", input, "-o", output, "--backend", "cpu"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const FileBuilder written(output);
  const FileBuilder file(input);
  EXPECT_EQ(written.dtype("o"), VOLLEY_BF16);
  EXPECT_EQ(written.dtype("lse"), VOLLEY_F32);
  EXPECT_EQ(written.shape("o"), file.shape("o_model"));
  EXPECT_EQ(written.shape("lse"), file.shape("lse"));
  EXPECT_EQ(written.metadata().at("backend"), "cpu");
  EXPECT_EQ(written.metadata().at("causal"), "true");
  EXPECT_EQ(written.metadata().at("scale"), "0.125");
  for (const int64_t i : {0, 12345, 249407}) {
    EXPECT_NEAR(written.at("o", i), file.at("o_model", i), 0.05) << i;
  }
  // The result as the answer: the reference agrees with it.
  FileBuilder again(input);
  again.copy("o", written, "o_model").copy("lse", written, "lse");
  EXPECT_EQ(volley({"attend", again.write(folder.path("x")), "--backend", "reference"}).code, 0);
}

TEST(Attend, ThreadsDoNotChangeTheResult) {
  const TemporaryFolder folder;
  for (const char* threads : {"1", "3"}) {
    const Outcome outcome = volley({"attend", data_file("smollm2_135m_layer15"), "--backend", "cpu",
                                    "--threads", threads, "-o", folder.path(threads)});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  const FileBuilder one(folder.path("1"));
  const FileBuilder three(folder.path("3"));
  for (int64_t i = 0; i < 433 * 9 * 64; ++i) ASSERT_EQ(one.at("o", i), three.at("o", i)) << i;
}

}  // namespace
}  // namespace volley::cli::test
