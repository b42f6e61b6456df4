// SPDX-License-Identifier: BSD-3-Clause
//
// What the twins of cuda/ptx/*.cuh call: the instructions, on behalf of the running CUDA thread.
// Meanings and layouts are those of the wrappers of the same names.
#pragma once

#include <cstdint>
#include <string>

namespace volley::emulator {

// Ends the launch with an exception that names the thread.
[[noreturn]] void fail(std::string sentence);

// Memory.
char* dynamic_shared();
void copy_async(void* destination, const void* source, int size, int bytes);
void commit_copies();
void wait_copies(int left);
void add_atomically(float* address, float value);

void sync_cta();
void named_sync(int id, int threads);

// Threads of all that follows: a whole warp.
void sync_warp();
uint64_t exchange(uint64_t value, int from_lane);  // a shuffle; of from_lane, the last 5 bits count
uint32_t ballot(bool value);
int largest(int value);
void load_matrices(const void* row, uint32_t (&r)[4]);
void load_transposed(const void* row, uint32_t (&r)[4]);
void mma_bf16(float* c, const uint32_t* a, uint32_t b0, uint32_t b1);
void mma_f16(float* c, const uint32_t* a, uint32_t b0, uint32_t b1);

}  // namespace volley::emulator
