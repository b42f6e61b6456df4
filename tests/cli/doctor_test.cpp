// SPDX-License-Identifier: BSD-3-Clause
//
// volley_doctor (src/doctor.cpp): what it says of this build and of the environment.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "volley/volley.h"

namespace {

using nlohmann::json;

std::string doctor(int32_t format) {
  std::string text(volley_doctor(format, nullptr, 0), '\0');
  EXPECT_EQ(volley_doctor(format, text.data(), text.size() + 1), text.size());
  return text;
}

json doctor_json() { return json::parse(doctor(VOLLEY_FORMAT_JSON)); }

const json* find(const json& list, const std::string& name) {
  for (const json& entry : list) {
    if (entry.at("name") == name) return &entry;
  }
  return nullptr;
}

// Sets a variable for the life of a test.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Setting() { unsetenv(name_); }

 private:
  const char* name_;
};

json judged(const char* name, const char* value) {
  const Setting setting(name, value);
  const json report = doctor_json();
  const json* variable = find(report.at("environment"), name);
  EXPECT_NE(variable, nullptr) << name;
  return variable == nullptr ? json{} : *variable;
}

TEST(Doctor, TellsVersionBuildAndMachine) {
  const json report = doctor_json();
  EXPECT_EQ(report.at("version"), volley_version());
  EXPECT_EQ(report.at("abi"), VOLLEY_ABI_VERSION);
  EXPECT_FALSE(report.at("build").at("compiler").get<std::string>().empty());
  EXPECT_GE(report.at("cpu").at("cores").get<int>(), 1);
  EXPECT_GT(report.at("cpu").at("memory_bytes").get<uint64_t>(),
            report.at("cpu").at("free_bytes").get<uint64_t>());
  EXPECT_GT(report.at("cpu").at("free_bytes").get<uint64_t>(), 0u);
}

TEST(Doctor, HasARowForEveryBackend) {
  const json report = doctor_json();
  ASSERT_EQ(report.at("backends").size(), 4u);
  for (const char* name : {"reference", "cpu"}) {
    const json* backend = find(report.at("backends"), name);
    ASSERT_NE(backend, nullptr) << name;
    EXPECT_EQ(backend->at("state"), "available") << *backend;
  }
  for (const char* name : {"sm80", "sm90"}) {
    const json* backend = find(report.at("backends"), name);
    ASSERT_NE(backend, nullptr) << name;
    EXPECT_FALSE(backend->at("sentence").get<std::string>().empty());
    if (report.at("gpus").empty()) {
      EXPECT_NE(backend->at("state"), "available");
    }
  }
}

TEST(Doctor, JudgesTheEnvironment) {
  EXPECT_TRUE(judged("VOLLEY_BACKEND", "cpu").at("valid"));
  EXPECT_FALSE(judged("VOLLEY_BACKEND", "gpu").at("valid"));
  EXPECT_TRUE(judged("VOLLEY_THREADS", "2").at("valid"));
  EXPECT_FALSE(judged("VOLLEY_THREADS", "two").at("valid"));
  EXPECT_TRUE(judged("VOLLEY_LOG", "plan").at("valid"));
  EXPECT_FALSE(judged("VOLLEY_LOG", "all").at("valid"));
  EXPECT_TRUE(judged("VOLLEY_CHECK", "1").at("valid"));
  EXPECT_FALSE(judged("VOLLEY_CHECK", "yes").at("valid"));
  EXPECT_TRUE(judged("VOLLEY_CPU", "portable").at("valid"));
  EXPECT_FALSE(judged("VOLLEY_CPU", "sse9").at("valid"));
  EXPECT_FALSE(judged("VOLLEY_BACKENDS", "cpu").at("valid"));  // a misspelt name
}

TEST(Doctor, ABadVariableShowsWhereItHurts) {
  const Setting setting("VOLLEY_CPU", "sse9");
  const json report = doctor_json();
  const json* backend = find(report.at("backends"), "cpu");
  EXPECT_EQ(backend->at("state"), "refused");
  EXPECT_NE(backend->at("sentence").get<std::string>().find("sse9"), std::string::npos);
}

TEST(Doctor, TextHasTheSameRows) {
  const std::string text = doctor(VOLLEY_FORMAT_TEXT);
  for (const char* word :
       {"volley  ", "build  ", "cpu  ", "gpu  ", "backend      sm90", "backend      reference"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
  }
}

TEST(Doctor, CutsToTheCapacity) {
  char buffer[8];
  EXPECT_GT(volley_doctor(VOLLEY_FORMAT_TEXT, buffer, sizeof buffer), sizeof buffer);
  EXPECT_EQ(std::string(buffer), "volley ");
}

}  // namespace
