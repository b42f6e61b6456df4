// SPDX-License-Identifier: BSD-3-Clause
//
// CLI11, and the checks of flags that several commands share.
#pragma once

#include <CLI/CLI.hpp>

namespace volley::cli {

// A check whose conditions the help page need not repeat: the text beside the flag says them.
inline CLI::Validator unsaid(CLI::Validator validator) { return validator.description(""); }

CLI::Validator not_negative();

}  // namespace volley::cli
