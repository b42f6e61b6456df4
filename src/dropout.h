// SPDX-License-Identifier: BSD-3-Clause
//
// The dropout generator of the contract: which attention weights are dropped is a pure function of
// (seed, offset, sequence, query head, query, key), so that every backend, tile shape and split
// drops the same ones, forward and backward, and nothing is stored. It is Philox4x32-10 of Salmon
// et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (SC'11). For host and device: plain
// functions, no header included (NVRTC compiles it). docs/contract.md has the definition in prose.
#pragma once

#ifdef __CUDACC__
#  define VOLLEY_HOST_DEVICE __host__ __device__
#else
#  define VOLLEY_HOST_DEVICE
#endif

namespace volley::core {

struct PhiloxCounter {
  unsigned int word[4];
};

struct PhiloxKey {
  unsigned int word[2];
};

// Ten rounds: a bijection of the 128-bit counter for each key.
VOLLEY_HOST_DEVICE inline PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const unsigned long long product0 = 0xd2511f53ull * counter.word[0];
    const unsigned long long product1 = 0xcd9e8d57ull * counter.word[2];
    counter = {{static_cast<unsigned int>(product1 >> 32) ^ counter.word[1] ^ key.word[0],
                static_cast<unsigned int>(product1),
                static_cast<unsigned int>(product0 >> 32) ^ counter.word[3] ^ key.word[1],
                static_cast<unsigned int>(product0)}};
    key.word[0] += 0x9e3779b9u;  // the golden ratio
    key.word[1] += 0xbb67ae85u;  // sqrt(3) - 1
  }
  return counter;
}

// Once a call: folds the 64-bit offset into the seed. A training step that advances the offset
// gets an unrelated key, and all four counter words are free for the position.
VOLLEY_HOST_DEVICE inline PhiloxKey dropout_key(unsigned long long seed,
                                                unsigned long long offset) {
  const PhiloxCounter mixed = philox4x32(
      {{static_cast<unsigned int>(offset), static_cast<unsigned int>(offset >> 32), 0u, 0u}},
      {{static_cast<unsigned int>(seed), static_cast<unsigned int>(seed >> 32)}});
  return {{mixed.word[0], mixed.word[1]}};
}

// The words of keys 4 * key_group ... 4 * key_group + 3: one Philox call serves four keys. Query
// and key count from the start of their sequence.
VOLLEY_HOST_DEVICE inline PhiloxCounter dropout_words(PhiloxKey key, unsigned int batch,
                                                      unsigned int head, unsigned int query,
                                                      unsigned int key_group) {
  return philox4x32({{key_group, query, batch, head}}, key);
}

// A weight is kept iff its word is at least the threshold: floor(p * 2^32), p in [0, 1).
VOLLEY_HOST_DEVICE inline unsigned int dropout_threshold(double p) {
  return static_cast<unsigned int>(p * 4294967296.0);
}

}  // namespace volley::core
