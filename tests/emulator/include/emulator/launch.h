// SPDX-License-Identifier: BSD-3-Clause
//
// Runs a kernel on the CPU, thread for thread. Each CUDA thread is a fiber; CTAs are spread over
// the cores. What the hardware leaves open is drawn from `seed`: the order of warps between two
// barriers, that of lanes, and when asynchronous copies land. So a kernel that needs a barrier and
// lacks it gives another result for another seed.
//
// Not emulated: static shared memory, grids and CTAs of more than one dimension, and threads that
// wait for each other by memory alone: one runs until it comes to a barrier.
#pragma once

#include <cstdint>
#include <functional>

namespace volley::emulator {

// `kernel` is called by every thread, with shared_bytes of dynamic shared memory that holds NaN.
// Throws std::runtime_error, with a sentence, if a warp diverges at an instruction for whole warps,
// a barrier is not reached by all, an address is out of bounds or misaligned, or memory around the
// shared memory was written. CTAs that were running then end where they are.
void launch(int grid, int threads, int shared_bytes, uint64_t seed,
            const std::function<void()>& kernel);

}  // namespace volley::emulator
