# SPDX-License-Identifier: BSD-3-Clause
"""What is right, for tests: PyTorch's math attention in float64, and inputs to try it on.

All tensors have Volley's layout, (b, s, h, d). What scaled_dot_product_attention lacks (softcap,
sink, lse) is written out beside it; everything is differentiable.
"""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

# Of o and gradients around 1 in magnitude, from inputs rounded to that dtype.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.float16: 4e-3,
             torch.bfloat16: 3e-2}


def tensors(*shapes, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
            for shape in shapes]


def leaves(*xs):
    """The same memory, as variables to differentiate by."""
    return [x.detach().requires_grad_() for x in xs]


def qkv(b=2, sq=37, sk=53, hq=4, hk=2, d=32, dv=None, dtype=torch.float32, seed=0):
    return tensors((b, sq, hq, d), (b, sk, hk, d), (b, sk, hk, dv or d), dtype=dtype, seed=seed)


def band(sq, sk, causal=False, window=(-1, -1), offset=None):
    """(sq, sk) bool, true where the query may see the key."""
    offset = sk - sq if offset is None else offset
    distance = torch.arange(sk)[None, :] - torch.arange(sq)[:, None] - offset
    left, right = window
    if causal:
        right = 0 if right < 0 else min(right, 0)
    seen = torch.ones(sq, sk, dtype=torch.bool)
    if left >= 0:
        seen &= distance >= -left
    if right >= 0:
        seen &= distance <= right
    return seen


def _heads(x, hq):
    return x.double().repeat_interleave(hq // x.shape[2], 2).transpose(1, 2)


def sdpa(q, k, v, seen=None, bias=None, scale=None):
    """o by scaled_dot_product_attention's math backend in float64; rows without keys are not its
    business."""
    hq = q.shape[2]
    mask = torch.zeros(q.shape[1], k.shape[1], dtype=torch.float64)
    if bias is not None:
        mask = mask + bias.double()
    if seen is not None:
        mask = mask.masked_fill(~seen, float("-inf"))
    with sdpa_kernel(SDPBackend.MATH):
        o = F.scaled_dot_product_attention(_heads(q, hq), _heads(k, hq), _heads(v, hq),
                                           attn_mask=mask, scale=scale)
    return o.transpose(1, 2)


def spelled_out(q, k, v, seen=None, bias=None, scale=None, softcap=0.0, sink=None):
    """(o, lse) with everything, rows without keys too."""
    hq = q.shape[2]
    logits = _heads(q, hq) @ _heads(k, hq).transpose(-1, -2)
    logits = logits * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    if bias is not None:
        logits = logits + bias.double()
    if seen is not None:
        logits = logits.masked_fill(~seen, float("-inf"))
    joined = logits
    if sink is not None:
        column = sink.double()[None, :, None, None].expand(*logits.shape[:-1], 1)
        joined = torch.cat([logits, column], -1)
    lse = torch.logsumexp(joined, -1)
    weights = torch.exp(logits - lse.masked_fill(torch.isinf(lse), 0.0)[..., None])
    return (weights @ _heads(v, hq)).transpose(1, 2), lse


def close(found, wanted, dtype=None, factor=1.0):
    bound = factor * TOLERANCE[dtype or found.dtype]
    torch.testing.assert_close(found.double(), wanted.double(), rtol=bound, atol=bound)
