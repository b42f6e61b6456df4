// SPDX-License-Identifier: BSD-3-Clause
//
// Whether a forked child may start threads under this build's sanitizer. ThreadSanitizer cannot
// follow such threads. AddressSanitizer of GCC 12 forks with its allocator's locks held, so that
// they hang in calloc inside pthread_create, one run in two; the pool is not involved, and without
// sanitizers the same tests run everywhere.
#pragma once

namespace volley {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kCanForkWithThreads = false;
#else
inline constexpr bool kCanForkWithThreads = true;
#endif

}  // namespace volley
