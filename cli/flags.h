// SPDX-License-Identifier: BSD-3-Clause
//
// Flags that several commands share, and how they become fields of a volley_problem. A flag that
// was not given leaves its field alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "error.h"
#include "volley/volley.h"

namespace CLI {
class App;  // of CLI11, which takes long to compile: sources that add flags include cli11.h
}

namespace volley::cli {

// What the chosen command does; main.cpp calls it after parsing.
using Action = std::function<ExitCode()>;

void add_attend(CLI::App& app, Action* action);
void add_plan(CLI::App& app, Action* action);
void add_doctor(CLI::App& app, Action* action);
void add_check(CLI::App& app, Action* action);
void add_bench(CLI::App& app, Action* action);

// Mask, scale and softcap.
struct ScoreFlags {
  std::optional<bool> causal;
  std::string window;
  std::string mask_alignment;
  std::optional<int64_t> mask_offset;
  std::optional<double> scale;
  std::optional<double> softcap;
};
void add_score_flags(CLI::App& app, ScoreFlags* flags);
void apply(const ScoreFlags& flags, volley_problem* problem);

// VOLLEY_BACKEND_* by name.
void add_backend_flag(CLI::App& app, int32_t* backend);

// A dtype by the library's name ("bf16"); throws when there is none.
int32_t dtype_by_name(const std::string& name);

}  // namespace volley::cli
