// SPDX-License-Identifier: BSD-3-Clause
//
// What `volley attend` refuses, and how: one sentence on stderr that names the culprit, an exit
// code, nothing on stdout and no file left behind.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "builder.h"
#include "command.h"
#include "temporary.h"
#include "volley/volley.h"

namespace volley::cli::test {
namespace {

FileBuilder dense() {
  FileBuilder file;
  for (const char* name : {"q", "k", "v"}) file.fill(name, VOLLEY_BF16, {2, 4, 2, 8}, 0.5);
  return file;
}

FileBuilder packed(const std::vector<double>& cu) {
  FileBuilder file;
  for (const char* name : {"q", "k", "v"}) file.fill(name, VOLLEY_BF16, {8, 2, 8}, 0.5);
  file.add("cu_seqlens", VOLLEY_I32, {static_cast<int64_t>(cu.size())}, cu);
  return file;
}

FileBuilder paged(double page, double used) {
  FileBuilder file;
  file.fill("q", VOLLEY_BF16, {1, 4, 2, 8}, 0.5)
      .fill("k", VOLLEY_BF16, {3, 4, 2, 8}, 0.5)
      .fill("v", VOLLEY_BF16, {3, 4, 2, 8}, 0.5)
      .add("page_table", VOLLEY_I32, {1, 2}, {0, page})
      .fill("seqused_k", VOLLEY_I32, {1}, used);
  return file;
}

struct Wrong {
  const char* name;
  FileBuilder file;
  std::vector<std::string> flags;
  std::vector<const char*> words;  // that the sentence holds
};

class WrongFile : public testing::TestWithParam<Wrong> {};

TEST_P(WrongFile, IsOneSentenceAndExit2) {
  const TemporaryFolder folder;
  const std::string output = folder.path("out");
  std::vector<std::string> arguments = {"attend", GetParam().file.write(folder.path("in")), "-o",
                                        output};
  const auto& flags = GetParam().flags;
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const Outcome outcome = volley(arguments);
  EXPECT_EQ(outcome.code, 2) << outcome.out;
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(is_one_sentence(outcome.err)) << outcome.err;
  EXPECT_EQ(outcome.err.rfind("volley: attend: ", 0), 0u) << outcome.err;
  for (const char* word : GetParam().words) {
    EXPECT_NE(outcome.err.find(word), std::string::npos) << word << " in " << outcome.err;
  }
  EXPECT_FALSE(std::filesystem::exists(output));
}

INSTANTIATE_TEST_SUITE_P(
    Each, WrongFile,
    testing::Values(
        Wrong{"NoQ", dense().remove("q"), {}, {"no tensor 'q'"}},
        Wrong{"NoV", dense().remove("v"), {}, {"no tensor 'v'"}},
        Wrong{"TwoAxes", dense().fill("q", VOLLEY_BF16, {4, 8}, 1), {}, {"'q' has 2 axes"}},
        Wrong{"SevenAxes", dense().fill("k", VOLLEY_BF16, {1, 1, 1, 2, 4, 2, 8}, 1), {}, {"k"}},
        Wrong{"ScalarV", dense().fill("v", VOLLEY_BF16, {}, 1), {}, {"'v' 0"}},
        Wrong{"OtherDtypes", dense().fill("k", VOLLEY_F16, {2, 4, 2, 8}, 1), {}, {"k", "fp16"}},
        Wrong{"IntegerQ", dense().fill("q", VOLLEY_I32, {2, 4, 2, 8}, 1), {}, {"q", "i32"}},
        Wrong{"OtherHeadDim", dense().fill("k", VOLLEY_BF16, {2, 4, 2, 9}, 1), {}, {"k", "9"}},
        Wrong{"OtherBatch", dense().fill("k", VOLLEY_BF16, {3, 4, 2, 8}, 1), {}, {"3"}},
        Wrong{"HeadsDoNotDivide", dense().fill("q", VOLLEY_BF16, {2, 4, 3, 8}, 1), {}, {"3"}},
        Wrong{"PackedWithoutLengths", packed({0, 8}).remove("cu_seqlens"), {}, {"q"}},
        Wrong{"LengthsDecrease", packed({0, 5, 3, 8}), {}, {"cu_seqlens_q", "3", "5"}},
        Wrong{"LengthsStartLate", packed({1, 8}), {}, {"cu_seqlens_q", "1"}},
        Wrong{"LengthsPassTheEnd", packed({0, 9}), {}, {"cu_seqlens_q", "9"}},
        Wrong{"LengthsHuge", packed({0, 2147483647}), {}, {"cu_seqlens_q", "2147483647"}},
        Wrong{"LengthsNegative", packed({0, -2147483647, 8}), {}, {"cu_seqlens_q", "-2147483647"}},
        Wrong{"NoLengths", packed({}), {}, {"cu_seqlens_q"}},
        Wrong{"LengthsAsFloats",
              packed({0, 8}).fill("cu_seqlens", VOLLEY_F32, {2}, 0),
              {},
              {"cu_seqlens", "F32"}},
        Wrong{"LengthsTwice",
              packed({0, 8}).add("cu_seqlens_q", VOLLEY_I32, {2}, {0, 8}),
              {},
              {"both 'cu_seqlens' and 'cu_seqlens_q'"}},
        Wrong{"UsedTooLong",
              dense().add("seqused_k", VOLLEY_I32, {2}, {4, 5}),
              {},
              {"seqused_k[1]", "5"}},
        Wrong{"UsedNegative",
              dense().add("seqused_q", VOLLEY_I32, {2}, {-1, 4}),
              {},
              {"seqused_q[0]", "-1"}},
        Wrong{"PageOutOfRange", paged(3, 8), {}, {"page_table[0][1]", "3"}},
        Wrong{"PageNegative", paged(-1, 5), {}, {"page_table[0][1]", "-1"}},
        Wrong{"PagedUsedTooLong", paged(1, 9), {}, {"seqused_k[0]", "9"}},
        Wrong{"PagedWithoutLengths", paged(1, 8).remove("seqused_k"), {}, {"seqused_k"}},
        Wrong{"CausalIsYes", dense().metadata("causal", "yes"), {}, {"'causal' is 'yes'"}},
        Wrong{"ScaleIsWord", dense().metadata("scale", "0.1x"), {}, {"'scale' is '0.1x'"}},
        Wrong{"ScaleIsInfinite", dense().metadata("scale", "inf"), {}, {"scale", "inf"}},
        Wrong{"AnswerOfOtherShape",
              dense().fill("o_model", VOLLEY_F32, {2, 4, 2, 7}, 0),
              {},
              {"o_model", "[2, 4, 2, 7]"}},
        Wrong{
            "AnswerOfIntegers", dense().fill("lse", VOLLEY_I32, {2, 2, 4}, 0), {}, {"lse", "I32"}},
        Wrong{"WindowIsWord", dense(), {"--window", "a,1"}, {"--window is 'a,1'"}},
        Wrong{"WindowIsOneNumber", dense(), {"--window", "7"}, {"--window is '7'"}},
        Wrong{"WindowBelowMinusOne", dense(), {"--window", "-2,0"}, {"--window is '-2,0'"}},
        Wrong{"SoftcapNegative", dense(), {"--softcap", "-1"}, {"softcap", "-1"}},
        Wrong{"UnknownBackend", dense(), {"--backend", "sm100"}, {"--backend", "sm100"}},
        Wrong{"UnknownDevice", dense(), {"--device", "tpu"}, {"--device", "tpu"}},
        Wrong{"UnknownFlag", dense(), {"--fast"}, {"--fast"}},
        Wrong{"ThreadsIsWord", dense(), {"--threads", "many"}, {"--threads", "many"}}),
    [](const testing::TestParamInfo<Wrong>& param) { return param.param.name; });

TEST(AttendErrors, ScalesMustBePositive) {
  const TemporaryFolder folder;
  for (const double scale : std::vector<double>{0, -1, INFINITY, NAN}) {
    FileBuilder file;
    for (const char* name : {"q", "k", "v"}) file.fill(name, VOLLEY_E4M3, {1, 4, 1, 16}, 1);
    for (const char* name : {"q_descale", "k_descale", "v_descale"}) {
      file.fill(name, VOLLEY_F32, {1, 1, 1}, 1);
    }
    file.set("k_descale", 0, scale);
    const Outcome outcome = volley({"attend", file.write(folder.path("in"))});
    EXPECT_EQ(outcome.code, 2) << scale;
    EXPECT_NE(outcome.err.find("k_descale"), std::string::npos) << outcome.err;
  }
}

TEST(AttendErrors, FilesThatAreNone) {
  const TemporaryFolder folder;
  for (const std::string& path :
       {folder.path("none"), folder.path(""), std::string("/dev/null"),
        folder.write("text", "This is no tensor."), folder.write("short", "abc")}) {
    const Outcome outcome = volley({"attend", path});
    EXPECT_EQ(outcome.code, 2) << path;
    EXPECT_TRUE(is_one_sentence(outcome.err)) << outcome.err;
  }
}

TEST(AttendErrors, ABackendThatCannotRunHere) {
  const Outcome outcome =
      volley({"attend", data_file("smollm2_135m_layer15"), "--backend", "sm90", "--device", "cpu"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(is_one_sentence(outcome.err)) << outcome.err;
  EXPECT_NE(outcome.err.find("sm90"), std::string::npos) << outcome.err;
}

TEST(AttendErrors, OutputThatCannotBeWritten) {
  const TemporaryFolder folder;
  const std::string input = data_file("minilm_l6_layer0");
  for (const std::string& output :
       {folder.path("no/such/folder/out"), folder.path(""), std::string("/dev/full")}) {
    const Outcome outcome = volley({"attend", input, "-o", output});
    EXPECT_EQ(outcome.code, 1) << output;
    EXPECT_TRUE(is_one_sentence(outcome.err)) << outcome.err;
    EXPECT_NE(outcome.err.find("cannot write"), std::string::npos) << outcome.err;
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("")));
}

TEST(AttendErrors, AFullDiskLeavesTheOldFileAndNothingElse) {
  const TemporaryFolder folder;
  const std::string output = folder.write("out", "old");
  const Outcome outcome =
      shell("ulimit -f 8; \"$VOLLEY\" attend " + data_file("minilm_l6_layer0") + " -o " + output);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("cannot write"), std::string::npos) << outcome.err;
  EXPECT_EQ(std::filesystem::file_size(output), 3u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path("")), {}), 1);
}

}  // namespace
}  // namespace volley::cli::test
