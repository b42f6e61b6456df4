// SPDX-License-Identifier: BSD-3-Clause
//
// `volley attend` on a Hopper GPU: the decoder's files and the encoder's (fp16, head dim 32) are
// right.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "command.h"
#include "runner.h"
#include "temporary.h"
#include "volley/volley.h"

namespace volley::cli::test {
namespace {

using nlohmann::json;

class AttendOnHopper : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!check::backend_available(VOLLEY_BACKEND_SM90, &why)) GTEST_SKIP() << why;
  }
};

TEST_F(AttendOnHopper, IsWithinTheRule) {
  // MiniLM's are packed, fp16, and their head dim of 32 runs in the tile of 64.
  for (const char* name : {"smollm2_135m_layer15", "smollm2_135m_long", "minilm_l6_layer0"}) {
    const Outcome outcome = volley({"attend", data_file(name), "--backend", "sm90", "--json"});
    ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
    const json report = json::parse(outcome.out);
    EXPECT_EQ(report.at("plan").at("backend"), "sm90");
    EXPECT_EQ(report.at("plan").at("device").at("name"), "cuda:0");
    for (const char* tensor : {"o", "lse"}) {
      EXPECT_TRUE(report.at("deviation").at(tensor).at("ok").get<bool>());
    }
  }
}

TEST_F(AttendOnHopper, IsTheDefaultWhereItIs) {
  const Outcome outcome = volley({"attend", data_file("smollm2_135m_layer15"), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out).at("plan").at("backend"), "sm90");
}

}  // namespace
}  // namespace volley::cli::test
