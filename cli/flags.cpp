// SPDX-License-Identifier: BSD-3-Clause
//
// See flags.h.
#include "flags.h"

#include <charconv>
#include <map>

#include "cli11.h"

namespace volley::cli {
namespace {

// Groups of the help page.
constexpr const char* kMask = "Mask and scores";

int64_t read_bound(const std::string& text, const std::string& whole) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end || value < -1) {
    bad_input("--window is '{}'; wanted L,R: two whole numbers, -1 for an open side",
              printable(whole));
  }
  return value;
}

}  // namespace

CLI::Validator not_negative() {
  const auto judge = [](const std::string& text) {
    return text.rfind('-', 0) == 0 ? fmt::format("{} is below 0", printable(text)) : "";
  };
  return CLI::Validator(judge, "");
}

void add_score_flags(CLI::App& app, ScoreFlags* flags) {
  CLI::Option* causal =
      app.add_flag_callback(
             "--causal", [flags] { flags->causal = true; }, "No query sees a later key")
          ->group(kMask);
  app.add_flag_callback(
         "--no-causal", [flags] { flags->causal = false; }, "... though metadata say so")
      ->excludes(causal)
      ->group(kMask);
  app.add_option("--window", flags->window, "Keys from L before to R after a query; -1: open")
      ->type_name("L,R")
      ->group(kMask);
  app.add_option("--mask-alignment", flags->mask_alignment,
                 "bottom_right (default) or top_left, when lengths differ")
      ->check(unsaid(CLI::IsMember({"bottom_right", "top_left"})))
      ->type_name("NAME")
      ->group(kMask);
  app.add_option("--mask-offset", flags->mask_offset, "... or an offset: key minus query")
      ->excludes("--mask-alignment")
      ->type_name("N")
      ->group(kMask);
  app.add_option("--scale", flags->scale, "Of q.k (default 1/sqrt(d))")
      ->type_name("X")
      ->group(kMask);
  app.add_option("--softcap", flags->softcap, "Logits become X tanh(logit / X); 0: none")
      ->type_name("X")
      ->group(kMask);
}

void apply(const ScoreFlags& flags, volley_problem* problem) {
  if (flags.causal) problem->causal = *flags.causal ? 1 : 0;
  if (flags.scale) problem->scale = *flags.scale;
  if (flags.softcap) problem->softcap = *flags.softcap;
  if (flags.mask_alignment == "top_left") problem->mask_alignment = VOLLEY_ALIGN_TOP_LEFT;
  if (flags.mask_offset) {
    problem->mask_alignment = VOLLEY_ALIGN_EXPLICIT;
    problem->mask_offset = *flags.mask_offset;
  }
  if (!flags.window.empty()) {
    const size_t comma = flags.window.find(',');
    const size_t second = comma == flags.window.npos ? flags.window.size() : comma + 1;
    problem->window_left = read_bound(flags.window.substr(0, comma), flags.window);
    problem->window_right = read_bound(flags.window.substr(second), flags.window);
  }
}

void add_backend_flag(CLI::App& app, int32_t* backend) {
  std::map<std::string, int32_t> names;
  for (int32_t id = VOLLEY_BACKEND_AUTO; id <= VOLLEY_BACKEND_SM90; ++id) {
    names[volley_backend_name(id)] = id;
  }
  app.add_option_function<std::string>(
         "--backend", [=](const std::string& name) { *backend = names.at(name); },
         "auto, reference, cpu, sm80 or sm90 (default auto)")
      ->check(unsaid(CLI::IsMember(names)))
      ->type_name("NAME");
}

int32_t dtype_by_name(const std::string& name) {
  for (const int32_t dtype : {VOLLEY_BF16, VOLLEY_F16, VOLLEY_E4M3, VOLLEY_F32, VOLLEY_F64}) {
    if (name == volley_dtype_name(dtype)) return dtype;
  }
  bad_input("dtype '{}' is unknown; wanted bf16, fp16, e4m3, fp32 or fp64", printable(name));
}

}  // namespace volley::cli
