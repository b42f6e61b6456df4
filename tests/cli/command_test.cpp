// SPDX-License-Identifier: BSD-3-Clause
//
// What all commands of `volley` share (help, version, usage errors, stdout that fails), and the two
// that need no file: plan and doctor.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "command.h"
#include "volley/volley.h"

namespace volley::cli::test {
namespace {

using nlohmann::json;

bool contains(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

TEST(Command, HelpHasExamplesAndExitCodes) {
  const Outcome all = volley({"--help"});
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(all.err, "");
  for (const std::string command : {"attend", "plan", "doctor", "check", "bench"}) {
    EXPECT_TRUE(contains(all.out, "\n  " + command)) << all.out;
    const Outcome one = volley({command, "--help"});
    EXPECT_EQ(one.code, 0);
    EXPECT_TRUE(contains(one.out, "Examples:\n  volley " + command)) << one.out;
    EXPECT_TRUE(contains(one.out, "Exit status:")) << one.out;
    EXPECT_TRUE(contains(one.out, "--json")) << one.out;
  }
}

TEST(Command, Version) {
  const Outcome outcome = volley({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, std::string("volley ") + volley_version() + "\n");
}

TEST(Command, PlansAreLoggedWhereTheEnvironmentAsks) {
  const std::string plan = "\"$VOLLEY\" plan --sq 64 --device h200";
  const Outcome logged = shell("VOLLEY_LOG=plan " + plan);
  EXPECT_EQ(logged.code, 0);
  EXPECT_TRUE(contains(logged.err, "sm90")) << logged.err;
  EXPECT_EQ(shell(plan).err, "");
}

TEST(Command, UsageErrorsAreOneSentence) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{},
                                                    {"attent"},
                                                    {"attend"},
                                                    {"--frob"},
                                                    {"plan", "--sq"},
                                                    {"plan", "--sq", "-1"},
                                                    {"plan", "--sq", "1e3"},
                                                    {"plan", "--dtype", "int4"},
                                                    {"plan", "--mask-alignment", "middle"},
                                                    {"doctor", "now"}}) {
    const Outcome outcome = volley(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(is_one_sentence(outcome.err)) << outcome.err;
  }
}

TEST(Command, NamesTheArgumentThatItDoesNotKnow) {
  for (const char* argument : {"attent", "--frob"}) {
    EXPECT_NE(volley({argument}).err.find(argument), std::string::npos) << argument;
  }
}

TEST(Command, FullStandardOutputIsAnError) {
  const Outcome outcome = volley({"doctor"}, "/dev/full");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(is_one_sentence(outcome.err)) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "standard output: No space left")) << outcome.err;
}

TEST(Command, AReaderThatLeftIsNoError) {
  const Outcome outcome = volley_into_closed_pipe({"doctor"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
}

TEST(PlanCommand, PlansForMachinesThatAreNotHere) {
  const Outcome text = volley({"plan", "--d", "128", "--causal", "--device", "h200"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_TRUE(contains(text.out, "backend      sm90")) << text.out;
  EXPECT_TRUE(contains(text.out, "causal")) << text.out;
  const Outcome outcome = volley({"plan", "--sq", "100", "--sk", "200", "--hq", "6", "--hk", "2",
                                  "--b", "3", "--d", "64", "--device", "cpu", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json plan = json::parse(outcome.out);
  EXPECT_EQ(plan.at("backend"), "cpu");
  const std::map<std::string, int> sizes = {{"b", 3},  {"sq", 100}, {"sk", 200}, {"hq", 6},
                                            {"hk", 2}, {"d", 64},   {"dv", 64}};
  for (const auto& [name, size] : sizes) EXPECT_EQ(plan.at("problem").at(name), size) << name;
  for (const char* key : {"config", "workspace_bytes", "passed_over", "device"}) {
    EXPECT_TRUE(plan.contains(key)) << key;
  }
}

TEST(PlanCommand, EveryFlagReachesTheProblem) {
  const auto text = [](std::vector<std::string> flags) {
    std::vector<std::string> arguments = {"plan",      "--device", "cpu", "--backend",
                                          "reference", "--sq",     "256", "--json"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Outcome outcome = volley(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? json::parse(outcome.out).at("problem").at("text").get<std::string>()
                             : outcome.err;
  };
  EXPECT_TRUE(contains(text({"--window", "64,0"}), "window (64, 0)"));
  EXPECT_TRUE(contains(text({"--causal", "--mask-alignment", "top_left"}), "top-left"));
  EXPECT_TRUE(contains(text({"--causal", "--mask-offset", "-7"}), "offset -7"));
  EXPECT_TRUE(contains(text({"--softcap", "30"}), "softcap 30"));
  EXPECT_TRUE(contains(text({"--sink"}), "sink"));
  EXPECT_TRUE(contains(text({"--bias"}), "bias"));
  EXPECT_TRUE(contains(text({"--alibi"}), "ALiBi"));
  EXPECT_TRUE(contains(text({"--mask"}), ", mask"));
  EXPECT_TRUE(contains(text({"--varlen", "--b", "3"}), "varlen"));
  EXPECT_TRUE(contains(text({"--used-lengths"}), "used lengths"));
  EXPECT_TRUE(contains(text({"--page", "16", "--b", "2"}), "pages of 16"));
  EXPECT_TRUE(contains(text({"--dropout", "0.25"}), "dropout 0.25"));
  EXPECT_TRUE(contains(text({"--dtype", "e4m3", "--descale"}), "e4m3"));
  EXPECT_TRUE(contains(text({"--backward"}), "backward"));
  EXPECT_TRUE(contains(text({"--o-dtype", "fp32", "--dv", "32"}), "dv 32"));
}

TEST(PlanCommand, SaysWhyTheFastPathIsNotTaken) {
  // A row of K one element longer than a multiple of 16 bytes: TMA cannot read it.
  const Outcome odd =
      volley({"plan", "--device", "h200", "--backend", "sm90", "--row-padding", "1"});
  EXPECT_EQ(odd.code, 2);
  EXPECT_TRUE(is_one_sentence(odd.err)) << odd.err;
  EXPECT_TRUE(contains(odd.err, "[not_offered, stride]")) << odd.err;
  const Outcome address =
      volley({"plan", "--device", "h200", "--backend", "sm90", "--misaligned", "2"});
  EXPECT_EQ(address.code, 2);
  EXPECT_TRUE(contains(address.err, "[not_offered, alignment]")) << address.err;
  const Outcome width = volley({"plan", "--device", "h200", "--backend", "sm90", "--d", "36"});
  EXPECT_EQ(width.code, 2);
  EXPECT_TRUE(contains(width.err, "[not_offered, head_dim]")) << width.err;
}

TEST(PlanCommand, HugeSizesAreRefusedNotOverflown) {
  for (const std::vector<std::string>& sizes :
       {std::vector<std::string>{"--sq", "9223372036854775807"},
        {"--b", "9223372036854775807", "--varlen"},
        {"--row-padding", "9223372036854775807"},
        {"--b", "4000000000", "--sq", "4000000000", "--page", "1"}}) {
    std::vector<std::string> arguments = {"plan", "--device", "cpu"};
    arguments.insert(arguments.end(), sizes.begin(), sizes.end());
    const Outcome outcome = volley(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_TRUE(is_one_sentence(outcome.err)) << outcome.err;
  }
}

TEST(PlanCommand, ADeviceThatIsNotHere) {
  const Outcome missing = volley({"plan", "--device", "cuda:99"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_TRUE(contains(missing.err, "cuda:99")) << missing.err;
  const Outcome unknown = volley({"plan", "--device", "tpu"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(contains(unknown.err, "h200")) << unknown.err;
}

TEST(DoctorCommand, TextAndJson) {
  const Outcome text = volley({"doctor"});
  EXPECT_EQ(text.code, 0);
  EXPECT_TRUE(contains(text.out, "backend      cpu        available")) << text.out;
  const json report = json::parse(volley({"doctor", "--json"}).out);
  EXPECT_EQ(report.at("version"), volley_version());
  EXPECT_EQ(report.at("backends").size(), 4u);
}

TEST(CheckCommand, TestsABackend) {
  const Outcome outcome = volley({"check", "--backend", "cpu", "--seed", "3", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const json report = json::parse(outcome.out);
  EXPECT_TRUE(report.at("ok").get<bool>());
  EXPECT_EQ(report.at("seed"), 3);
  ASSERT_EQ(report.at("suites").size(), 7u);
  for (const json& suite : report.at("suites")) {
    EXPECT_EQ(suite.at("backend"), "cpu");
    EXPECT_EQ(suite.at("failed"), 0);
    EXPECT_GT(suite.at("passed").get<int>(), 50) << suite;
  }
}

TEST(CheckCommand, ABackendThatCannotRunIsAFailure) {
  const Outcome outcome = shell("VOLLEY_CPU=sse9 \"$VOLLEY\" check");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(is_one_sentence(outcome.err)) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "cpu cannot be checked here: VOLLEY_CPU is \"sse9\""))
      << outcome.err;
}

}  // namespace
}  // namespace volley::cli::test
