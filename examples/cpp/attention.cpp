// SPDX-License-Identifier: BSD-3-Clause
//
// Attention in one call: bf16 tensors, a sliding window, heads-first strides. Checked with weights
// that are known: all keys equal, so that every row is the mean of the values it sees. Next:
// plan.cpp, which asks what would run and why.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>
#include <volley/volley.hpp>

namespace {

volley::bf16 to_bf16(float value) {  // exact for the small integers used here
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return {static_cast<std::uint16_t>(bits >> 16)};
}

float to_float(volley::bf16 value) {
  std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

}  // namespace

int main() {
  constexpr std::int64_t kTokens = 50, kHeads = 3, kDim = 64, kWindow = 5;
  constexpr std::int64_t kCount = kTokens * kHeads * kDim;
  std::vector<volley::bf16> q(kCount, to_bf16(1)), k(kCount, to_bf16(0)), v(kCount), o(kCount);
  // Stored heads first, (heads, tokens, channels); the view's axes are (1, tokens, heads,
  // channels).
  for (std::int64_t i = 0; i < kCount; ++i) v[i] = to_bf16(static_cast<float>(i / kDim % kTokens));
  auto heads_first = [](auto& values) {
    return volley::view(values.data(), {1, kTokens, kHeads, kDim},
                        {kCount, kDim, kTokens * kDim, 1});
  };

  volley::Operands x;
  x.q = heads_first(q);
  x.k = heads_first(k);
  x.v = heads_first(v);
  x.o = heads_first(o);
  volley::Options options;
  options.causal = true;
  options.window_left = kWindow - 1;  // the query itself and the four before it

  volley::Result<void> done = volley::attention(x, options);
  if (!done) {
    std::fprintf(stderr, "attention: %s\n", done.error().message.c_str());
    return 1;
  }
  float worst = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    float row = static_cast<float>(i / kDim % kTokens);
    float seen = std::fmin(row + 1, static_cast<float>(kWindow));  // rows row-seen+1 ... row
    worst = std::fmax(worst, std::fabs(to_float(o[i]) - (row - (seen - 1) / 2)));
  }
  std::printf("window of %d over %d tokens: largest error %.3g (a bf16 step at 47 is 0.25)\n",
              static_cast<int>(kWindow), static_cast<int>(kTokens), worst);

  // An error is a value with a code, a reason and one sentence.
  options.window_left = -3;
  volley::Result<void> refused = volley::attention(x, options);
  if (refused) return 1;
  std::printf("refused, as it must be (%s): %s\n", refused.error().reason_name(),
              refused.error().message.c_str());
  return worst <= 0.125f ? 0 : 1;
}
