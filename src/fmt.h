// SPDX-License-Identifier: BSD-3-Clause
//
// {fmt} for the whole project: compiled once, in fmt.cpp, since as a header-only library it adds
// seconds to every file; and in a namespace of its own, fmt::volley, so that libvolley.a can be
// linked beside any other {fmt}.
#pragma once

#define FMT_BEGIN_NAMESPACE \
  namespace fmt {           \
  inline namespace volley {
#define FMT_END_NAMESPACE \
  }                       \
  }
#include <fmt/format.h>
#include <fmt/ranges.h>
