// SPDX-License-Identifier: BSD-3-Clause
//
// Sequences of different lengths, packed one after the other, in one call; each must come out as if
// it had been alone.
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>
#include <volley/volley.hpp>

int main() {
  constexpr std::int64_t kHeads = 2, kDim = 48;
  const std::vector<std::int32_t> begins = {0, 7, 7, 40, 61};  // lengths 7, 0, 33, 21
  const std::int64_t total = begins.back(), count = total * kHeads * kDim;

  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> q(count), k(count), v(count), packed(count), alone(count);
  for (std::vector<float>* values : {&q, &k, &v})
    for (float& value : *values) value = normal(random);

  volley::Options options;
  options.causal = true;
  volley::Operands x;
  x.q = volley::view(q.data(), {total, kHeads, kDim});
  x.k = volley::view(k.data(), {total, kHeads, kDim});
  x.v = volley::view(v.data(), {total, kHeads, kDim});
  x.o = volley::view(packed.data(), {total, kHeads, kDim});
  const auto batch = static_cast<std::int64_t>(begins.size());
  x.cu_seqlens_q = x.cu_seqlens_k = volley::view(begins.data(), {batch});
  try {
    volley::attention(x, options).value();  // value() throws what an error says

    for (std::size_t n = 0; n + 1 < begins.size(); ++n) {
      const std::int64_t first = begins[n] * kHeads * kDim, length = begins[n + 1] - begins[n];
      auto rows = [&](std::vector<float>& values) {
        return volley::view(values.data() + first, {1, length, kHeads, kDim});
      };
      volley::Operands one;
      one.q = rows(q), one.k = rows(k), one.v = rows(v), one.o = rows(alone);
      volley::attention(one, options).value();
    }
  } catch (const volley::BadResult& failure) {
    std::fprintf(stderr, "%s: %s\n", failure.error().code_name(), failure.what());
    return 1;
  }
  const bool equal = std::memcmp(packed.data(), alone.data(), count * sizeof(float)) == 0;
  std::printf("4 sequences, %d tokens: packed and alone are %s\n", static_cast<int>(total),
              equal ? "equal, bit by bit" : "different");
  return equal ? 0 : 1;
}
