// SPDX-License-Identifier: BSD-3-Clause
//
// Which keys does a query see? Error bounds cannot see one lost key in sixteen thousand, so the set
// is read off exactly: with k = 0 every visible key weighs 1/n and one-hot values show each weight;
// and a needle, a key with a logit above 30, must answer wherever it may be seen and nowhere else.
#pragma once

#include "runner.h"

namespace volley::check {

// k = 0; value row base + x is one at channel x: o[i][x] is the weight of key base + x.
Instance one_hot_instance(const Case& c, int64_t base);
Verdict judge_one_hot(const Instance& instance, int64_t base);

// Key head h has its needle at keys[h], whose value row is all ones; all else is zero.
Instance needle_instance(const Case& c, const std::vector<int64_t>& keys);
Verdict judge_needles(const Instance& instance, const std::vector<int64_t>& keys);

// Both, over all keys and with needles at every tile boundary. c gives lengths and mask; no sink.
Verdict check_key_set(const Case& c, int32_t backend);

}  // namespace volley::check
