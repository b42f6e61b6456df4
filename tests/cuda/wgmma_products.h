// SPDX-License-Identifier: BSD-3-Clause
//
// Products on the tensor cores in every form of ptx/wgmma.cuh, for wgmma_test.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/config.h"

namespace volley::test {

// A from shared memory or registers, B stored with k contiguous or with n contiguous.
enum class Form { kSsK, kSsMN, kRsK, kRsMN };

constexpr int kM = 64;
constexpr int kK = 128;  // eight steps over two chunks of 64

// D (64 x n) = A (64 x 128) B (128 x n), plus the D that is passed in if `accumulate`. A, B and D
// are row-major; the bits of A and B are in the element's format. False if the GPU failed.
bool multiply(cuda::Element element, int n, Form form, bool accumulate,
              const std::vector<uint16_t>& a, const std::vector<uint16_t>& b, std::vector<float>* d,
              std::string* error);

}  // namespace volley::test
