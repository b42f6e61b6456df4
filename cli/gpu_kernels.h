// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace volley::cli {

// Of an empty kernel that takes as many bytes of parameters as a forward.
void launch_empty(void* stream);

// Of a kernel that does nothing for so long.
void launch_spin(unsigned long long nanoseconds, void* stream);

}  // namespace volley::cli
