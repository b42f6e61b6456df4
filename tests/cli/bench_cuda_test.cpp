// SPDX-License-Identifier: BSD-3-Clause
//
// `volley bench` on a GPU: each protocol gives times, and the host's part of a run is as small as
// promised. Skipped, with the reason, where there is no GPU that sm90 runs on.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "command.h"
#include "runner.h"
#include "volley/volley.h"

namespace volley::cli::test {
namespace {

using nlohmann::json;

class BenchOnHopper : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!check::backend_available(VOLLEY_BACKEND_SM90, &why)) GTEST_SKIP() << why;
  }

  static json bench(const char* protocols) {
    const Outcome outcome = volley({"bench", "--backend", "sm90", "--sq", "512", "--hq", "2", "--d",
                                    "64", "--json", "--protocol", protocols});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? json::parse(outcome.out) : json();
  }
};

TEST_F(BenchOnHopper, TimesByEachProtocol) {
  const json record = bench("sustained,burst");
  ASSERT_EQ(record["rows"].size(), 2u);
  for (const json& row : record["rows"]) {
    EXPECT_GT(row["ms_p10"], 0) << row;
    EXPECT_LT(row["ms"], 1) << row;
    EXPECT_GT(row["tflops"], 0) << row;
  }
}

TEST_F(BenchOnHopper, ARunCostsLittleMoreThanALaunch) {
  const json record = bench("host");
  ASSERT_EQ(record["rows"].size(), 2u);
  EXPECT_EQ(record["rows"][0]["impl"], "volley");
  EXPECT_EQ(record["rows"][1]["impl"], "empty");
  const double run = record["rows"][0]["ms"], empty = record["rows"][1]["ms"];
  EXPECT_LE(run - empty, 0.0025) << "ms of the host";
  EXPECT_LT(record["plan"]["again_ns"], 1000);
}

}  // namespace
}  // namespace volley::cli::test
