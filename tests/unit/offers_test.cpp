// SPDX-License-Identifier: BSD-3-Clause
//
// docs/contract.md shows the table of src/offers.cpp: this test writes it out and compares. When
// they differ it prints the table that belongs between the markers there.
#include "offers.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "fmt.h"
#include "volley/volley.h"

namespace volley::core {
namespace {

constexpr char kBegin[] = "<!-- offers: begin, judged by tests/unit/offers_test.cpp -->\n";
constexpr char kEnd[] = "<!-- offers: end -->\n";

std::string line(const std::string& first, const std::function<std::string(const Offer&)>& cell) {
  std::string text = fmt::format("| {} |", first);
  for (const Offer& offer : offers()) text += fmt::format(" {} |", cell(offer));
  return text + "\n";
}

std::string heading(const Offer& offer) {
  return fmt::format("{} {}", volley_backend_name(offer.backend),
                     offer.op == VOLLEY_OP_BACKWARD ? "backward" : "forward");
}

std::string dtype_names(const Offer& offer) {
  std::string names;
  for (const int32_t dtype : offer.dtypes) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", volley_dtype_name(dtype));
  }
  return names;
}

std::string table() {
  std::string text = line("", heading) + line("---", [](const Offer&) { return "---"; });
  text += line("q, k, v", dtype_names);
  text +=
      line("d, dv", [](const Offer& offer) { return fmt::format("to {}", offer.max_head_dim); });
  for (uint32_t bit = 0; bit < kFeatureCount; ++bit) {
    const uint32_t feature = 1u << bit;
    const bool of_gradients = (feature & (kAccumulate | kLseGradient)) != 0;
    text += line(feature_names(feature), [&](const Offer& offer) {
      if (of_gradients && offer.op == VOLLEY_OP_FORWARD) return "";  // there are none
      return (offer.features & feature) != 0 ? "yes" : "no";
    });
  }
  return text;
}

TEST(Offers, AreTheContractsTable) {
  std::ifstream file(VOLLEY_TEST_DATA "/../../docs/contract.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string contract = text.str();
  const size_t begin = contract.find(kBegin);
  const size_t end = contract.find(kEnd);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos) << kBegin << kEnd;
  const size_t first = begin + sizeof kBegin - 1;
  EXPECT_TRUE(contract.substr(first, end - first) == table()) << table();
}

}  // namespace
}  // namespace volley::core
