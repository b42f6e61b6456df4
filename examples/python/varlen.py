# SPDX-License-Identifier: BSD-3-Clause
"""Sequences of different lengths, packed one behind the other: no padding is stored or computed.

Next: decode.py, one token at a time from a paged cache.
"""
import numpy as np

import volley

lengths = [70, 5, 0, 33]
ends = np.cumsum([0, *lengths]).astype(np.int32)  # sequence n owns the rows [ends[n], ends[n + 1])
rng = np.random.default_rng(0)
q, k, v = (rng.standard_normal((ends[-1], heads, 64), dtype=np.float32) for heads in (4, 2, 2))

o = volley.attention_varlen(q, k, v, ends, ends, max(lengths), max(lengths), causal=True)

for begin, end in zip(ends, ends[1:]):
    rows = slice(begin, end)
    alone = volley.attention(q[None, rows], k[None, rows], v[None, rows], causal=True)
    same = np.array_equal(o[rows], alone[0])
    print(f"rows {begin:3} to {end:3}: {'the bits of a call of its own' if same else 'DIFFERENT'}")
    assert same
