// SPDX-License-Identifier: BSD-3-Clause
//
// `volley bench` on the CPU: the record's fields, what a row says of the call, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "command.h"
#include "temporary.h"

namespace volley::cli::test {
namespace {

using nlohmann::json;

json bench(std::vector<std::string> flags) {
  std::vector<std::string> arguments = {"bench", "--device", "cpu", "--json"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const Outcome outcome = volley(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.code == 0 ? json::parse(outcome.out) : json();
}

TEST(Bench, WritesARecordAsResultsHasThem) {
  const json record = bench({"--b", "2", "--sq", "96", "--hq", "4", "--hk", "2", "--d", "64",
                             "--causal", "--dtype", "fp32"});
  for (const char* key : {"schema", "machine", "source", "taken", "peers", "rows"}) {
    EXPECT_TRUE(record.contains(key)) << key;
  }
  ASSERT_EQ(record["rows"].size(), 1u);
  const json& row = record["rows"][0];
  const json expected = {
      {"op", "fwd"},      {"dtype", "fp32"}, {"mode", "default"},  {"variant", "gqa 2"},
      {"b", 2},           {"sq", 96},        {"sk", 96},           {"hq", 4},
      {"hk", 2},          {"d", 64},         {"dv", 64},           {"causal", true},
      {"impl", "volley"}, {"run", 1},        {"protocol", "wall"}, {"ghz", nullptr}};
  for (const auto& [key, value] : expected.items()) EXPECT_EQ(row.at(key), value) << key;
  const double ms = row.at("ms");
  EXPECT_GT(row.at("ms_p10"), 0);
  EXPECT_LE(row.at("ms_p10"), ms);
  EXPECT_LE(ms, row.at("ms_p90"));
  const double flops = 2.0 * (64 + 64) * 2 * 4 * 96 * 96 / 2;
  EXPECT_NEAR(row.at("tflops").get<double>(), flops / ms / 1e9, 1e-9);
}

TEST(Bench, EveryGeometryRuns) {
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--varlen", "--b", "3"},
           {"--used-lengths"},
           {"--page", "16", "--b", "2"},
           {"--bias", "--mask", "--alibi", "--sink", "--softcap", "30"},
           {"--window", "5,3", "--sk", "40"},
           {"--dropout", "0.5"},
           {"--row-padding", "3", "--misaligned", "2"},
           {"--dtype", "e4m3", "--descale"},
           {"--backward"},
           {"--b", "0"}}) {
    std::vector<std::string> arguments = {"--sq", "33", "--hq", "2", "--d", "32"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const json record = bench(arguments);
    ASSERT_TRUE(record.is_object()) << flags[0];
    EXPECT_NE(record["rows"][0]["variant"] == "plain",
              flags[0] != "--backward" && flags[0] != "--b")
        << flags[0];
    EXPECT_GT(record["rows"][0]["ms"], 0) << flags[0];
  }
}

TEST(Bench, TheTextHasOneLineAProtocol) {
  const Outcome outcome = volley({"bench", "--sq", "32", "--device", "cpu", "--d", "16"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 2) << outcome.out;
  EXPECT_EQ(outcome.out.rfind("cpu [", 0), 0u) << outcome.out;
  EXPECT_NE(outcome.out.find("\nwall       volley  "), outcome.out.npos) << outcome.out;
}

TEST(Bench, FactsGoIntoTheRecord) {
  const TemporaryFolder folder;
  const std::string facts =
      folder.write("facts.json", R"({"machine": {"cuda": "99"}, "source": {"commit": "c"}})");
  const json record = bench({"--sq", "8", "--facts", facts});
  EXPECT_EQ(record["machine"]["cuda"], "99");
  EXPECT_TRUE(record["machine"].contains("cpu"));
  EXPECT_EQ(record["source"]["commit"], "c");
}

TEST(Bench, RefusesInOneSentence) {
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--protocol", "burst"},
                                             {"--protocol", "idle"},
                                             {"--device", "h200"},
                                             {"--dtype", "int4"},
                                             {"--hq", "3", "--hk", "2"}}) {
    std::vector<std::string> arguments = {"bench", "--sq", "8"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    if (flags[0] != "--device") arguments.insert(arguments.end(), {"--device", "cpu"});
    const Outcome outcome = volley(arguments);
    EXPECT_EQ(outcome.code, 2) << flags.back();
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(is_one_sentence(outcome.err)) << outcome.err;
  }
  const Outcome facts =
      volley({"bench", "--sq", "8", "--device", "cpu", "--json", "--facts", "no"});
  EXPECT_EQ(facts.code, 1);
  EXPECT_TRUE(is_one_sentence(facts.err)) << facts.err;
}

}  // namespace
}  // namespace volley::cli::test
