// SPDX-License-Identifier: BSD-3-Clause
//
// The CPU backend's own cases, each of which meets another part of its loop, and what its tests do
// with a case.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "runner.h"

namespace volley::check {

// What lies between the tensors and the scores, and between the scores and the softmax.
inline std::vector<Case> cpu_feature_cases() {
  std::vector<Case> cases;
  const auto add = [&](const char* name, Case c) {
    c.name = name;
    c.seed = 1000 + cases.size();
    cases.push_back(c);
  };
  add("block_scales", {.dtype = VOLLEY_E4M3,
                       .b = 2,
                       .sq = 70,
                       .sk = 150,
                       .hq = 4,
                       .hk = 2,
                       .d = 40,
                       .descale = true,
                       .scale_block = 48});
  add("paged_scales", {.dtype = VOLLEY_E4M3,
                       .b = 2,
                       .sq = 20,
                       .sk = 130,
                       .hq = 2,
                       .used_k = {130, 77},
                       .page = 50,
                       .causal = true,
                       .descale = true,
                       .scale_dtype = VOLLEY_E8M0,
                       .scale_block = 7});
  add("pages_of_one", {.b = 2, .sq = 3, .sk = 70, .used_k = {70, 0}, .page = 1});
  add("every_modifier", {.dtype = VOLLEY_F16,
                         .b = 2,
                         .sq = 140,
                         .sk = 150,
                         .hq = 6,
                         .hk = 2,
                         .left = 90,
                         .right = 3,
                         .softcap = 5,
                         .dropout_p = 0.3,
                         .sink = true,
                         .alibi = true,
                         .bias_dtype = VOLLEY_F16,
                         .bias = "bhqk",
                         .mask = "hqk"});
  add("dropout", {.sq = 131, .sk = 66, .hq = 2, .causal = true, .dropout_p = 0.6});
  return cases;
}

// Sizes lie around the tile of 128 rows and 64 keys and around the 4, 8 and 16 lanes of a vector.
inline std::vector<Case> cpu_cases() {
  std::vector<Case> cases = cpu_feature_cases();
  const auto add = [&](const char* name, Case c) {
    c.name = name;
    c.seed = cases.size() + 1;
    cases.push_back(c);
  };
  add("one", {.dtype = VOLLEY_F32, .d = 1, .dv = 1});
  add("tile_edges", {.b = 2, .sq = 129, .sk = 65, .hq = 2, .hk = 2, .d = 33, .dv = 17});
  add("group_of_three", {.sq = 100, .sk = 100, .hq = 9, .hk = 3, .causal = true});
  add("one_query", {.b = 2, .sq = 1, .sk = 300, .hq = 8, .hk = 2, .d = 128, .dv = 128});
  add("more_queries", {.dtype = VOLLEY_F16, .sq = 300, .sk = 70, .d = 80, .causal = true});
  add("large_heads", {.dtype = VOLLEY_F32, .sq = 20, .sk = 70, .d = 576, .dv = 512});
  add("largest_heads", {.dtype = VOLLEY_F16, .sq = 5, .sk = 66, .d = 1024, .dv = 1024});
  add("window", {.dtype = VOLLEY_F16, .sq = 200, .sk = 333, .left = 70, .right = 5});
  add("top_left", {.sq = 64, .sk = 200, .causal = true, .alignment = VOLLEY_ALIGN_TOP_LEFT});
  add("far_band", {.sq = 40,
                   .sk = 500,
                   .left = 3,
                   .right = 2,
                   .alignment = VOLLEY_ALIGN_EXPLICIT,
                   .offset = 200});
  add("softcap", {.dtype = VOLLEY_F32, .sq = 70, .sk = 130, .softcap = 1.5, .logit_std = 3});
  add("wide_softcap", {.sq = 70, .sk = 130, .causal = true, .softcap = 50, .logit_std = 20});
  add("negative_scale", {.dtype = VOLLEY_F32, .sq = 65, .sk = 129, .scale = -0.3});
  add("zero_scale", {.sq = 65, .sk = 129, .causal = true, .scale = 0});
  add("sink", {.sq = 90, .sk = 30, .hq = 6, .hk = 2, .causal = true, .sink = true});
  add("huge", {.sq = 70, .sk = 200, .d = 128, .causal = true, .values = Values::kHuge});
  add("packed", {.b = 4,
                 .sq = 150,
                 .sk = 170,
                 .hq = 4,
                 .hk = 2,
                 .cu_q = {0, 1, 1, 90, 147},
                 .cu_k = {0, 60, 100, 100, 165},
                 .causal = true,
                 .sink = true});
  add("used", {.dtype = VOLLEY_F16,
               .b = 3,
               .sq = 140,
               .sk = 90,
               .hq = 2,
               .hk = 1,
               .used_q = {140, 0, 77},
               .used_k = {90, 13, 0},
               .causal = true});
  add("no_keys", {.b = 2, .sq = 9, .sk = 0, .sink = true});
  add("no_queries", {.b = 2, .sq = 0, .sk = 9});
  add("fp32_output", {.out_dtype = VOLLEY_F32, .sq = 66, .sk = 66, .lse = false});
  return cases;
}

// The outputs of a CPU run with these options; a failed call fails the test.
inline Instance answer_of(Instance instance) {
  const Answer answer = run(instance, VOLLEY_BACKEND_CPU);
  EXPECT_TRUE(answer.ok()) << describe(instance.c) << ": " << answer.message << answer.broken;
  return instance;
}

inline bool same_outputs(const Instance& a, const Instance& b) {
  const bool lse = a[Role::kLse].present() && b[Role::kLse].present();
  return same_bits(a[Role::kO], b[Role::kO]) && (!lse || same_bits(a[Role::kLse], b[Role::kLse]));
}

}  // namespace volley::check
