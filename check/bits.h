// SPDX-License-Identifier: BSD-3-Clause
//
// Properties that hold to the last bit: the layout in memory, the neighbours in the batch, what
// lies behind a sequence's end, packing and a second run change nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runner.h"

namespace volley::check {

struct Property {
  std::string name;
  std::function<Verdict(int32_t backend)> check;
};

std::vector<Property> bit_properties(int32_t dtype, int32_t op);

// Runs both and compares the outputs of the sequences they share: sequence n of `a` with sequence
// n + shift of `b`.
Verdict same_outputs(Instance& a, Instance& b, int64_t shift, int32_t backend);

}  // namespace volley::check
