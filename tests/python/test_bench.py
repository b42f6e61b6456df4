# SPDX-License-Identifier: BSD-3-Clause
"""What bench/compare.py takes for right is what autograd says."""
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from operations import OPERATIONS  # noqa: E402


@pytest.mark.parametrize("causal", [False, True])
def test_exact_results_are_autograds(causal):
    torch.manual_seed(1)
    q, k, v, dout = (torch.randn(33, 16, dtype=torch.float64) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_()
    o = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]
    gradients = torch.autograd.grad(o, (q, k, v), dout)
    with torch.no_grad():
        torch.testing.assert_close(OPERATIONS["fwd"].exact((q, k, v), causal), (o,))
        torch.testing.assert_close(OPERATIONS["bwd"].exact((q, k, v, dout), causal), gradients)
