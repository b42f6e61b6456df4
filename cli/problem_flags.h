// SPDX-License-Identifier: BSD-3-Clause
//
// A call described by flags alone, without data: what `volley plan` and `volley bench` take.
#pragma once

#include <memory>

#include "flags.h"
#include "geometry.h"

namespace volley::cli {

struct ProblemFlags {
  GeometryFlags geometry;
  ScoreFlags score;
  volley_problem options;  // only the fields that flags set directly

  ProblemFlags() { volley_problem_init(&options); }
};

void add_problem_flags(CLI::App& app, ProblemFlags* flags);

// The problem that they describe, on a device of that type.
std::unique_ptr<Geometry> make_geometry(const ProblemFlags& flags, int32_t device_type);

}  // namespace volley::cli
