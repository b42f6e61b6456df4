// SPDX-License-Identifier: BSD-3-Clause
//
// Philox4x32-10 by the text of docs/contract.md, in 64-bit arithmetic and one weight at a time.
#include <array>
#include <cstdint>

#include "naive_row.h"

namespace volley::check {
namespace {

constexpr uint64_t kLow = 0xffffffff;

using Words = std::array<uint64_t, 4>;  // of 32 bits

Words philox(Words counter, uint64_t key_low, uint64_t key_high) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = counter[0] * 0xd2511f53;
    const uint64_t b = counter[2] * 0xcd9e8d57;
    counter = {b >> 32 ^ counter[1] ^ key_low, b & kLow, a >> 32 ^ counter[3] ^ key_high, a & kLow};
    key_low = (key_low + 0x9e3779b9) & kLow;
    key_high = (key_high + 0xbb67ae85) & kLow;
  }
  return counter;
}

uint64_t read(const HostTensor& t) {
  return t.present() ? static_cast<uint64_t>(static_cast<int64_t>(t.flat(0))) : 0;
}

}  // namespace

std::vector<float> naive_keep(const Instance& instance, const NaiveHead& head, int64_t i) {
  std::vector<float> keep(static_cast<size_t>(head.keys.used), 1.0f);
  const double p = instance.c.dropout_p;
  if (p == 0) return keep;
  const uint64_t seed = read(instance[Role::kDropoutSeed]);
  const uint64_t offset = read(instance[Role::kDropoutOffset]);
  const Words subkey = philox({offset & kLow, offset >> 32, 0, 0}, seed & kLow, seed >> 32);
  for (size_t j = 0; j < keep.size(); ++j) {
    const Words position{j / 4, static_cast<uint64_t>(i), static_cast<uint64_t>(head.n),
                         static_cast<uint64_t>(head.h)};
    const uint64_t word = philox(position, subkey[0], subkey[1])[j % 4];
    keep[j] =
        static_cast<double>(word) >= std::floor(p * 0x1p32) ? static_cast<float>(1 / (1 - p)) : 0;
  }
  return keep;
}

}  // namespace volley::check
