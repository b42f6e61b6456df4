// SPDX-License-Identifier: BSD-3-Clause
//
// Log lines of the library: to the caller's callback, else to stderr when VOLLEY_LOG=plan is set.
#pragma once

#include <string>

#include "volley/volley.h"

namespace volley::core {

// True when a line would be seen by anybody: ask before building it.
bool log_wanted();

void log_line(const std::string& line);

void set_log(volley_log_callback callback, void* user);

}  // namespace volley::core
