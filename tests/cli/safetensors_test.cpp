// SPDX-License-Identifier: BSD-3-Clause
//
// The safetensors reader and writer (cli/safetensors.h): what is right comes back bit for bit, and
// each way of being wrong is one sentence. Random damage is in safetensors_fuzz_test.cpp.
#include "safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "error.h"
#include "temporary.h"
#include "volley/volley.h"

namespace volley::cli {
namespace {

using test::TemporaryFolder;

std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

// The sentence of the error that parsing gives; "" when there is none.
std::string refusal(const std::string& header, uint64_t data_bytes = 0) {
  try {
    parse_safetensors_header(header, data_bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), kExitBadInput);
    return error.what();
  }
  return "";
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"q":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

TEST(SafetensorsHeader, ReadsNamesShapesAndMetadata) {
  const SafetensorsHeader header =
      parse_safetensors_header(R"({"b":{"data_offsets":[4,16],"shape":[2,3],"dtype":"BF16"},)"
                               R"("__metadata__":{"causal":"true","note":"a \"b\""},)"
                               R"("a":{"dtype":"I32","shape":[],"data_offsets":[0,4]},)"
                               R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]}}  )",
                               16);
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_TRUE(header.tensors[0].shape.empty());
  EXPECT_EQ(header.tensors[1].name, "none");
  EXPECT_EQ(header.tensors[1].bytes, 0u);
  EXPECT_EQ(header.tensors[2].dtype, VOLLEY_BF16);
  EXPECT_EQ(header.tensors[2].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(header.tensors[2].begin, 4u);
  EXPECT_EQ(header.metadata.at("note"), "a \"b\"");
}

TEST(SafetensorsHeader, KnowsTypesThatAttentionHasNoUseFor) {
  const SafetensorsHeader header = parse_safetensors_header(entry("U8", "[3]", "[0,3]"), 3);
  EXPECT_EQ(header.tensors[0].dtype, 0);
  EXPECT_EQ(header.tensors[0].dtype_name, "U8");
}

struct Wrong {
  const char* name;
  std::string header;
  uint64_t data_bytes;
  const char* sentence;  // a part of it
};

class WrongHeader : public testing::TestWithParam<Wrong> {};

TEST_P(WrongHeader, IsOneSentence) {
  const std::string sentence = refusal(GetParam().header, GetParam().data_bytes);
  EXPECT_NE(sentence.find(GetParam().sentence), std::string::npos) << sentence;
  EXPECT_EQ(sentence.find('\n'), std::string::npos);
  EXPECT_LT(sentence.size(), 250u) << sentence;
}

std::string twice(const std::string& name) {
  const std::string one = R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  return R"({")" + name + one + R"(,")" + name + one + "}";
}

INSTANTIATE_TEST_SUITE_P(
    Each, WrongHeader,
    testing::Values(
        Wrong{"Empty", "", 0, "does not begin with '{'"},
        Wrong{"Array", "[]", 0, "does not begin with '{'"},
        Wrong{"LeadingSpace", " {}", 0, "does not begin with '{'"},
        Wrong{"CutOff", R"({"q":{"dtype")", 0, "not valid JSON near its byte"},
        Wrong{"Trailing", "{} x", 0, "not valid JSON"},
        Wrong{"ZeroByte", std::string("{}\0{}", 5), 0, "zero byte"},
        Wrong{"BadUtf8", "{\"\xff\":{}}", 0, "not valid JSON"},
        Wrong{"EntryIsNumber", R"({"q":1})", 0, "'q' is 1; wanted an object"},
        Wrong{"EntryIsNull", R"({"q":null})", 0, "'q' is null; wanted an object"},
        Wrong{"Duplicate", twice("q"), 2, "'q' is there twice"},
        Wrong{"DuplicateMetadata", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "'a' twice"},
        Wrong{"MetadataNumber", R"({"__metadata__":{"causal":true}})", 0,
              "metadata 'causal' is a boolean; wanted a string"},
        Wrong{"MetadataNested", R"({"__metadata__":{"a":{"b":"c"}}})", 0, "is an object"},
        Wrong{"DuplicateField", R"({"q":{"dtype":"U8","dtype":"U8"}})", 0, "has 'dtype' twice"},
        Wrong{"UnknownField", R"({"q":{"dtype":"U8","strides":[1]}})", 0,
              "unknown field 'strides'"},
        Wrong{"NoShape", R"({"q":{"dtype":"U8","data_offsets":[0,0]}})", 0, "has no 'shape'"},
        Wrong{"NoDtype", R"({"q":{"shape":[],"data_offsets":[0,0]}})", 0, "has no 'dtype'"},
        Wrong{"UnknownDtype", entry("F4", "[2]", "[0,1]"), 1, "unknown dtype 'F4'"},
        Wrong{"DtypeArray", R"({"q":{"dtype":["U8"]}})", 0, "'dtype' of tensor 'q' is an array"},
        Wrong{"NegativeSize", entry("U8", "[-1]", "[0,1]"), 1, "holds the number -1"},
        Wrong{"FractionalSize", entry("U8", "[1.0]", "[0,1]"), 1, "holds the number 1.0"},
        Wrong{"NestedShape", entry("U8", "[[1]]", "[0,1]"), 1, "holds an array"},
        Wrong{"HugeSize", entry("U8", "[9223372036854775808]", "[0,1]"), 1, "impossible size"},
        Wrong{"Overflow", entry("F32", "[4294967296,4294967296]", "[0,0]"), 0, "too large"},
        Wrong{"OverflowBesideZero", entry("F32", "[0,4294967296,4294967296]", "[0,0]"), 0,
              "too large"},
        Wrong{"WrongBytes", entry("F32", "[2,3]", "[0,20]"), 20, "has 20 bytes"},
        Wrong{"Reversed", entry("U8", "[1]", "[1,0]"), 1, "not a begin and an end"},
        Wrong{"OneOffset", entry("U8", "[1]", "[1]"), 1, "not a begin and an end"},
        Wrong{"ThreeOffsets", entry("U8", "[1]", "[0,1,2]"), 1, "more than 2 data_offsets"},
        Wrong{"BeyondTheFile", entry("U8", "[9]", "[0,9]"), 8, "only 8 bytes of data"},
        Wrong{"GapBefore", entry("U8", "[1]", "[1,2]"), 2, "bytes 0 to 1 of the data belong to no"},
        Wrong{"GapAfter", entry("U8", "[1]", "[0,1]"), 2, "bytes 1 to 2 of the data belong to no"},
        Wrong{"Overlap",
              R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
              R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
              3, "overlap"},
        Wrong{"ControlCharacters", "{\"\\u001b[2J\":1}", 0, "'\\x1b[2J' is 1"}),
    [](const testing::TestParamInfo<Wrong>& param) { return param.param.name; });

TEST(SafetensorsHeader, DeepNestingIsRefusedAtOnce) {
  std::string deep = R"({"q":)";
  deep += std::string(1'000'000, '[');
  EXPECT_NE(refusal(deep).find("'q' is an array"), std::string::npos);
  deep = "{\"__metadata__\":";
  for (int i = 0; i < 100'000; ++i) deep += R"({"a":)";
  EXPECT_NE(refusal(deep).find("'a' is an object"), std::string::npos);
}

TEST(SafetensorsHeader, LongNamesAreCutInMessages) {
  const std::string name(10'000, 'x');
  EXPECT_LT(refusal("{\"" + name + "\":1}").size(), 200u);
}

std::string open_error(const std::string& path) {
  try {
    SafetensorsFile file(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(SafetensorsFile, RefusesWhatIsNoSuchFile) {
  TemporaryFolder folder;
  const auto write = [&](const std::string& bytes) { return folder.write("x.safetensors", bytes); };
  EXPECT_NE(open_error(folder.path("none")).find("No such file"), std::string::npos);
  EXPECT_NE(open_error(folder.path("")).find("not a regular file"), std::string::npos);
  EXPECT_NE(open_error("/dev/zero").find("not a regular file"), std::string::npos);
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(open_error(pipe).find("not a regular file"), std::string::npos);
  EXPECT_NE(open_error(write("")).find("only 0 bytes"), std::string::npos);
  EXPECT_NE(open_error(write("\xff\xff\xff\xff\xff\xff\xff\x7f{}")).find("header length"),
            std::string::npos);
  EXPECT_NE(open_error(write("\xff\xff\xff\xff\xff\xff\xff\xff{}")).find("header length"),
            std::string::npos);
  EXPECT_NE(open_error(write(file_of("{", ""))).find("x.safetensors': the header is wrong"),
            std::string::npos);
}

TEST(SafetensorsFile, RefusesAHeaderAboveTheFormatsLimit) {
  TemporaryFolder folder;
  std::string length(8, '\0');
  const uint64_t bytes = 100'000'001;
  std::memcpy(length.data(), &bytes, 8);
  const std::string path = folder.write("x", length + "{}");
  std::filesystem::resize_file(path, 200'000'000);  // sparse
  EXPECT_NE(open_error(path).find("the format allows 100000000"), std::string::npos);
}

TEST(SafetensorsFile, ReadsUnalignedData) {
  TemporaryFolder folder;
  // 8 + an odd header: the floats begin at an odd address of the file.
  std::string header = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  if (header.size() % 2 == 0) header += ' ';
  const float values[] = {1.5f, -3.0f};
  const std::string path = folder.write(
      "x", file_of(header, std::string(reinterpret_cast<const char*>(values), sizeof values)));
  const SafetensorsFile file(path);
  float read[2] = {};
  file.read(*file.find("x"), std::as_writable_bytes(std::span(read)));
  EXPECT_EQ(read[0], 1.5f);
  EXPECT_EQ(read[1], -3.0f);
  EXPECT_EQ(file.find("y"), nullptr);
}

TEST(SafetensorsFile, AFileThatShrinksIsAnError) {
  TemporaryFolder folder;
  const std::string path =
      folder.write("x", file_of(entry("U8", "[100]", "[0,100]"), std::string(100, 'a')));
  const SafetensorsFile file(path);
  std::filesystem::resize_file(path, 90);
  std::vector<std::byte> out(100);
  EXPECT_THROW(file.read(file.tensors()[0], out), Error);
}

TEST(SafetensorsWriter, RoundTrip) {
  TemporaryFolder folder;
  const std::vector<uint16_t> o = {1, 2, 3, 4, 5, 6};
  const std::vector<float> lse = {0.5f, -1.0f};
  const Metadata metadata = {{"causal", "true"}, {"note", "\xc3\xa9 \"quoted\""}};
  const std::string path = folder.path("out.safetensors");
  write_safetensors(path,
                    {{"o", VOLLEY_F16, {1, 2, 3}, std::as_bytes(std::span(o))},
                     {"lse", VOLLEY_F32, {1, 2}, std::as_bytes(std::span(lse))},
                     {"empty", VOLLEY_BF16, {0, 4}, {}}},
                    metadata);
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), 3u);
  std::vector<uint16_t> o_read(6);
  std::vector<float> lse_read(2);
  file.read(*file.find("o"), std::as_writable_bytes(std::span(o_read)));
  file.read(*file.find("lse"), std::as_writable_bytes(std::span(lse_read)));
  EXPECT_EQ(o_read, o);
  EXPECT_EQ(lse_read, lse);
  EXPECT_EQ(file.find("o")->shape, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(file.find("o")->begin % 2, 0u);
  EXPECT_EQ(file.find("lse")->begin, 0u);  // the widest type first
  EXPECT_EQ(std::filesystem::file_size(path) % 4, 0u);
}

TEST(SafetensorsWriter, LeavesNothingBehindWhenItFails) {
  TemporaryFolder folder;
  const std::vector<float> values(4);
  const std::vector<TensorToWrite> tensors = {
      {"o", VOLLEY_F32, {4}, std::as_bytes(std::span(values))}};
  EXPECT_THROW(write_safetensors(folder.path("no/such/folder"), tensors, {}), Error);
  EXPECT_THROW(write_safetensors(folder.path(""), tensors, {}), Error);
  EXPECT_THROW(write_safetensors("/dev/full", tensors, {}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("")));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(SafetensorsWriter, WritesThroughALinkAndKeepsPermissions) {
  TemporaryFolder folder;
  const std::string target = folder.write("target", "old");
  ASSERT_EQ(chmod(target.c_str(), 0640), 0);
  const std::string link = folder.path("link");
  ASSERT_EQ(symlink(target.c_str(), link.c_str()), 0);
  write_safetensors(link, {}, {{"a", "b"}});
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(SafetensorsFile(target).metadata().at("a"), "b");
  struct stat found {};
  ASSERT_EQ(stat(target.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777u, 0640u);
}

}  // namespace
}  // namespace volley::cli
