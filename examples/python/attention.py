# SPDX-License-Identifier: BSD-3-Clause
"""A plain call: causal attention with grouped heads on NumPy arrays, checked against the formula.

Next: varlen.py, sequences of different lengths in one call.
"""
import numpy as np

import volley

b, s, hq, hk, d = 2, 100, 6, 2, 64  # query head h reads key head h // 3
rng = np.random.default_rng(0)
q = rng.standard_normal((b, s, hq, d), dtype=np.float32)
k = rng.standard_normal((b, s, hk, d), dtype=np.float32)
v = rng.standard_normal((b, s, hk, d), dtype=np.float32)

o, lse = volley.attention(q, k, v, causal=True, return_lse=True)

# The same, in float64 and step by step.
keys, values = (np.repeat(x, hq // hk, axis=2).astype(np.float64) for x in (k, v))
logits = np.einsum("bihd,bjhd->bhij", q, keys) / np.sqrt(d)
logits[..., np.triu(np.ones((s, s), bool), 1)] = -np.inf  # a query sees no later key
weights = np.exp(logits)
sums = weights.sum(-1)
wanted = np.einsum("bhij,bjhd->bihd", weights / sums[..., None], values)

print(f"o {o.shape} {o.dtype}, largest error {abs(o - wanted).max():.1e}")
print(f"lse {lse.shape} {lse.dtype}, largest error {abs(lse - np.log(sums)).max():.1e}")
assert np.allclose(o, wanted, atol=1e-5) and np.allclose(lse, np.log(sums), atol=1e-5)
