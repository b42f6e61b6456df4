// SPDX-License-Identifier: BSD-3-Clause
//
// Runs a plan on a loaded Request, in host memory or on the GPU, and takes the time.
#pragma once

#include "request.h"

namespace volley::cli {

struct Measurement {
  int runs = 0;        // short problems are run several times
  double seconds = 0;  // of one run, the median
  double flops = 0;    // of one run: 2 (d + dv) for each query, head and key that it sees
};

// Fills the request's o and lse.
Measurement run_and_time(const volley_plan* plan, Request* request);

// Queries times heads times the keys that the band lets each of them see.
double visible_pairs(const check::Case& c);

}  // namespace volley::cli
