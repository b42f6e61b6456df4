# SPDX-License-Identifier: BSD-3-Clause
"""Plans and reasons: what would run here and on machines that are not here, and what keeps a call
off the fast path. No array is needed.
"""
import volley

q = volley.Spec((2, 4096, 32, 128), "bfloat16")
k = volley.Spec((2, 4096, 8, 128), "bfloat16")
for device in ("h200", "cpu"):
    print(volley.plan(q, k, k, causal=True, device=device))

# Rows of 129 elements: the Hopper kernels cannot take them, and the plan says so.
padded = volley.Spec(k.shape, "bfloat16", strides=(4096 * 8 * 129, 8 * 129, 129, 1))
try:
    volley.plan(q, padded, k, causal=True, device="h200")
except RuntimeError as refusal:
    print(f"{refusal} [{refusal.code}, {refusal.reason}]")
    assert refusal.reason == "stride"

# Equal problems give equal plans.
assert volley.plan(q, k, k, device="cpu") == volley.plan(q, k, k, device="cpu")
assert volley.plan(q, k, k, device="cpu") != volley.plan(q, k, k, device="cpu", causal=True)
