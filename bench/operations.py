# SPDX-License-Identifier: BSD-3-Clause
"""What bench/compare.py times: of the forward and of the backward the number of inputs, what is
right in float64, the work, the graph that is replayed, and who takes part."""
import math
from typing import Callable, NamedTuple

import torch

import contestants


class Operation(NamedTuple):
    inputs: int          # tensors (b, s, h, d): q, k, v, and dout
    exact: Callable      # (inputs of one head in float64, causal) -> what a launch returns
    flops: int           # of a visible pair of a query and a key, a head dim
    allowed: dict        # deviation by dtype, beside the largest value of the output
    makers: Callable     # contestants.py
    lengths: tuple       # of the cells
    kinds: tuple         # (dtype, d) of the cells
    launches: int        # in a graph that is replayed back to back


def weights(q, k, causal):
    """2 GB at 16k tokens."""
    scores = q @ k.T / math.sqrt(q.shape[-1])
    if causal:
        keep = torch.ones(scores.shape, dtype=torch.bool, device=q.device).tril()
        scores.masked_fill_(~keep, -math.inf)
    return torch.softmax(scores, -1)


def exact_forward(inputs, causal):
    q, k, v = inputs
    return (weights(q, k, causal) @ v,)


def exact_backward(inputs, causal):
    """dq, dk, dv by the formulas of docs/contract.md."""
    q, k, v, dout = inputs
    p = weights(q, k, causal)
    dv = p.T @ dout
    delta = (dout * (p @ v)).sum(-1, keepdim=True)
    ds = p.mul_(dout @ v.T - delta).div_(math.sqrt(q.shape[-1]))
    return ds @ k, ds.T @ q, dv


# Allowed is one rounding of the weights and one of the output, with room; of the backward, whose
# sums have a second rounded factor, twice that. Its launches are longer, so fewer make a graph.
OPERATIONS = {
    "fwd": Operation(3, exact_forward, 4, {"bf16": 2 ** -6, "fp16": 2 ** -9}, contestants.forward,
                     (128, 256, 512, 1024, 2048, 4096, 8192, 16384),
                     (("bf16", 64), ("bf16", 128), ("bf16", 256), ("fp16", 128)), 20),
    "bwd": Operation(4, exact_backward, 10, {"bf16": 2 ** -5, "fp16": 2 ** -8},
                     contestants.backward, (512, 1024, 2048, 4096, 8192, 16384),
                     (("bf16", 64), ("bf16", 128), ("bf16", 256)), 5)}
