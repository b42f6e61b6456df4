// SPDX-License-Identifier: BSD-3-Clause
//
// A property of the safetensors reader: whatever happened to a file, it either gives tensors that
// are consistent with each other and with the file, all readable, or one Error. Thousands of
// damaged files from fixed seeds; run under ASan too, which is what sees an out-of-bounds read.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "error.h"
#include "safetensors.h"
#include "temporary.h"

namespace volley::cli {
namespace {

using Random = std::mt19937_64;

size_t below(Random& random, size_t n) { return n == 0 ? 0 : random() % n; }

std::string with_length(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + header + data;
}

const std::string kHeader = R"({"__metadata__":{"causal":"true","scale":"0.125"},)"
                            R"("q":{"dtype":"BF16","shape":[1,2,3,4],"data_offsets":[0,48]},)"
                            R"("cu":{"dtype":"I32","shape":[2],"data_offsets":[48,56]},)"
                            R"("e":{"dtype":"F8_E4M3","shape":[0,5],"data_offsets":[56,56]},)"
                            R"("s":{"dtype":"F64","shape":[],"data_offsets":[56,64]}})";

// Tokens that a header is made of, and some that it should not be made of.
const std::vector<std::string> kTokens = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          ":",
                                          ",",
                                          "\"q\"",
                                          "\"dtype\"",
                                          "\"shape\"",
                                          "0",
                                          "1",
                                          "-1",
                                          "1e999",
                                          "48",
                                          "56",
                                          "64",
                                          "true",
                                          "null",
                                          "1.5",
                                          "\"F32\"",
                                          "\"BF16\"",
                                          "\"F4\"",
                                          "\"\"",
                                          " ",
                                          "\\u0000",
                                          "\"__metadata__\"",
                                          "[[[[",
                                          "{\"a\":",
                                          "\xff\xfe",
                                          "4294967296",
                                          "18446744073709551615",
                                          "9223372036854775807",
                                          "99999999999999999999999",
                                          "\"data_offsets\":[0,0]"};

std::string damage(Random& random) {
  std::string header = kHeader;
  std::string data(64, '\0');
  for (char& byte : data) byte = static_cast<char>(random());
  switch (below(random, 6)) {
    case 0: {  // tokens inserted, replaced or removed; the length stays true
      for (size_t n = 1 + below(random, 3); n-- > 0;) {
        const size_t at = below(random, header.size());
        header.replace(at, below(random, 12), kTokens[below(random, kTokens.size())]);
      }
      return with_length(header, data);
    }
    case 1: {  // one number replaced
      size_t at = below(random, header.size());
      at = header.find_first_of("0123456789", at);
      if (at == header.npos) return with_length(header, data);
      size_t digits = header.find_first_not_of("0123456789", at) - at;
      header.replace(at, digits, std::to_string(random() >> below(random, 64)));
      return with_length(header, data);
    }
    case 2: {  // bits flipped anywhere
      std::string file = with_length(header, data);
      for (size_t n = 1 + below(random, 4); n-- > 0;) {
        file[below(random, file.size())] ^= static_cast<char>(1u << below(random, 8));
      }
      return file;
    }
    case 3: {  // cut, or longer than it says
      std::string file = with_length(header, data);
      file.resize(below(random, file.size() + 20), 'x');
      return file;
    }
    case 4: {  // another length
      std::string file = with_length(header, data);
      const uint64_t length = random() >> below(random, 64);
      std::memcpy(file.data(), &length, 8);
      return file;
    }
    default: {  // a piece copied elsewhere: duplicates and nesting
      const size_t from = below(random, header.size());
      const std::string piece = header.substr(from, below(random, 60));
      header.insert(below(random, header.size()), piece);
      return with_length(header, data);
    }
  }
}

void expect_consistent(const SafetensorsFile& file, size_t file_bytes) {
  uint64_t end = 0;
  for (const StoredTensor& tensor : file.tensors()) {
    uint64_t elements = 1;
    for (const int64_t size : tensor.shape) {
      ASSERT_GE(size, 0);
      elements *= static_cast<uint64_t>(size);
    }
    ASSERT_EQ(tensor.begin, end);
    end += tensor.bytes;
    ASSERT_LE(end, file_bytes);
    ASSERT_EQ(elements == 0, tensor.bytes == 0);
    if (elements != 0) {
      ASSERT_EQ(tensor.bytes % elements, 0u);
    }
    std::vector<std::byte> data(tensor.bytes);
    file.read(tensor, data);
  }
}

TEST(SafetensorsFuzz, DamagedFilesGiveConsistentTensorsOrASentence) {
  constexpr int kFiles = 6'000;
  test::TemporaryFolder folder;
  int read = 0;
  int refused = 0;
  for (int seed = 0; seed < kFiles; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(static_cast<uint64_t>(seed));
    const std::string bytes = damage(random);
    const std::string path = folder.write("x", bytes);
    try {
      const SafetensorsFile file(path);
      ++read;
      expect_consistent(file, bytes.size());
    } catch (const Error& error) {
      ++refused;
      const std::string sentence = error.what();
      EXPECT_LT(sentence.size(), 600u) << sentence;
      EXPECT_EQ(sentence.find('\n'), std::string::npos) << sentence;
    }
    if (testing::Test::HasFailure()) return;
  }
  // The damage must be neither always fatal nor always harmless.
  EXPECT_GT(read, kFiles / 50);
  EXPECT_GT(refused, kFiles / 2);
}

}  // namespace
}  // namespace volley::cli
