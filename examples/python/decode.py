# SPDX-License-Identifier: BSD-3-Clause
"""Decoding with grouped heads: each step, one query a sequence attends to its own keys, which lie
in pages of a store that all sequences share.

Next: gradient.py, training.
"""
import numpy as np

import volley

hq, hk, d, page, pages = 8, 2, 64, 16, 12
rng = np.random.default_rng(0)
store_k = np.full((pages, page, hk, d), np.nan, np.float32)  # what is not in use may hold anything
store_v = np.full((pages, page, hk, d), np.nan, np.float32)
free = list(rng.permutation(pages))
table = np.zeros((2, 4), np.int32)  # sequence n has its j-th page at table[n, j]
used = np.array([30, 7], np.int32)  # keys of each sequence
history = [rng.standard_normal((2, length, hk, d), dtype=np.float32) for length in used]


def append(n, j, key, value):
    """Puts key j of sequence n into the store."""
    if j % page == 0:
        table[n, j // page] = free.pop()
    store_k[table[n, j // page], j % page] = key
    store_v[table[n, j // page], j % page] = value


for n in range(2):  # the prompt
    for j in range(used[n]):
        append(n, j, *history[n][:, j])

for step in range(4):
    q = rng.standard_normal((2, 1, hq, d), dtype=np.float32)
    for n in range(2):
        token = rng.standard_normal((2, hk, d), dtype=np.float32)
        append(n, used[n], *token)
        history[n] = np.concatenate([history[n], token[:, None]], axis=1)
    used += 1
    o = volley.attention(q, store_k, store_v, page_table=table, seqused_k=used, causal=True)
    for n in range(2):
        plain = volley.attention(q[n:n + 1], *history[n][:, None])
        assert np.allclose(o[n], plain[0], atol=1e-5)
    print(f"step {step}: {used[0]} and {used[1]} keys in {pages - len(free)} pages, as if they lay "
          "side by side")
