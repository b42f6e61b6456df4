# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch tensors: values against the math attention in float64, views as they are, out."""
import pytest
import torch
from truth import TOLERANCE, band, close, qkv, sdpa, spelled_out, tensors

import volley

DTYPES = list(TOLERANCE)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 80])
def test_values(dtype, causal, d):
    q, k, v = qkv(d=d, dtype=dtype)
    o = volley.attention(q, k, v, causal=causal)
    assert o.dtype == dtype and o.is_contiguous()
    close(o, sdpa(q, k, v, band(37, 53, causal)))


@pytest.mark.parametrize("hq,hk", [(1, 1), (6, 6), (6, 3), (6, 1)])
def test_grouped_heads(hq, hk):
    q, k, v = qkv(hq=hq, hk=hk)
    close(volley.attention(q, k, v), sdpa(q, k, v))


@pytest.mark.parametrize("options", [
    {"window": (9, 4)}, {"window": (0, -1)}, {"window": (-1, 3)},
    {"window": (7, -1), "causal": True}, {"mask_offset": 21, "causal": True},
    {"mask_alignment": "top_left", "causal": True}])
def test_bands(options):
    q, k, v = qkv(sq=40, sk=40)
    offset = 0 if "mask_alignment" in options else options.get("mask_offset")
    seen = band(40, 40, options.get("causal"), options.get("window", (-1, -1)), offset)
    close(volley.attention(q, k, v, **options), sdpa(q, k, v, seen))


def test_scale_softcap_sink_and_lse():
    q, k, v = qkv(dv=24)
    sink, = tensors((4,), seed=1)
    given = {"scale": 0.3, "softcap": 2.5, "sink": sink}
    o, lse = volley.attention(q, k, v, causal=True, return_lse=True, **given)
    wanted, wanted_lse = spelled_out(q, k, v, band(37, 53, True), **given)
    close(o, wanted)
    close(lse, wanted_lse)
    assert o.shape == (2, 37, 4, 24) and lse.shape == (2, 4, 37) and lse.dtype == torch.float32


@pytest.mark.parametrize("shape", [(37, 53), (4, 37, 53), (2, 1, 37, 53), (2, 4, 1, 53),
                                   (2, 4, 37, 53)])
def test_bias_and_mask_broadcast(shape):
    q, k, v = qkv()
    bias, noise = tensors(shape, shape, seed=2)
    seen = noise > -0.8
    o, lse = volley.attention(q, k, v, bias=bias, mask=seen, return_lse=True)
    wanted, wanted_lse = spelled_out(q, k, v, seen, bias)
    close(o, wanted)
    close(lse, wanted_lse)


def test_alibi():
    q, k, v = qkv()
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    distance = (torch.arange(37)[:, None] + 53 - 37 - torch.arange(53)[None, :]).abs()
    close(volley.attention(q, k, v, alibi_slopes=slopes),
          sdpa(q, k, v, bias=-slopes[:, None, None] * distance))


def test_rows_without_keys():
    q, k, v = qkv(sq=20, sk=8)
    o, lse = volley.attention(q, k, v, causal=True, return_lse=True)
    assert (o[:, :12] == 0).all() and (lse[:, :, :12] == -torch.inf).all()
    close(o[:, 12:], sdpa(q[:, 12:], k, v, band(8, 8, True)))


def test_no_keys_at_all():
    q, k, v = qkv(sk=0)
    assert (volley.attention(q, k, v) == 0).all()


VIEWS = {
    "transposed": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "sliced": lambda x: torch.stack([x, torch.full_like(x, torch.nan)], 2).flatten(1, 2)[:, ::2],
    "last axis apart": lambda x: torch.stack([x, torch.full_like(x, torch.nan)], -1)[..., 0],
    "offset by one element": lambda x: torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape),
    "one head of a fused tensor": lambda x: torch.cat([x, x * torch.nan], 2)[:, :, :x.shape[2]],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_views_are_taken_as_they_are(name, dtype):
    q, k, v = qkv(dtype=dtype)
    wanted = volley.attention(q, k, v, causal=True)
    view = VIEWS[name]
    for arguments in ((view(q), k, v), (q, view(k), v), (q, k, view(v)), map(view, (q, k, v))):
        assert torch.equal(volley.attention(*arguments, causal=True), wanted)


def test_expanded_keys():
    q, k, v = qkv(hk=1)
    wanted = volley.attention(q, k, v)
    many = [x.expand(2, 53, 4, 32) for x in (k, v)]
    assert torch.equal(volley.attention(q, *many), wanted)
    one = [x[:1].expand(2, -1, -1, -1) for x in (k, v)]
    close(volley.attention(q, *one), sdpa(q, *one))


@pytest.mark.parametrize("name", VIEWS)
def test_out_may_be_a_view(name):
    q, k, v = qkv()
    out = VIEWS[name](torch.full_like(q, torch.nan))
    result, lse = volley.attention(q, k, v, out=out, return_lse=True)
    assert result is out and lse.isfinite().all()
    assert torch.equal(out, volley.attention(q, k, v))


def test_out_chooses_the_dtype():
    q, k, v = qkv(dtype=torch.bfloat16)
    out = torch.full(q.shape, torch.nan)
    volley.attention(q, k, v, out=out)
    close(out, sdpa(q, k, v), torch.bfloat16)
    assert not torch.equal(out, out.bfloat16().float())


def test_layout_bhsd():
    q, k, v = qkv()
    swapped = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    wanted = volley.attention(q, k, v)
    o = volley.attention(*swapped, layout="bhsd")
    assert o.shape == (2, 4, 37, 32) and torch.equal(o.transpose(1, 2), wanted)
    out = torch.full_like(swapped[0], torch.nan)
    assert volley.attention(*swapped, layout="bhsd", out=out) is out
    assert torch.equal(out.transpose(1, 2), wanted)


def test_e4m3_with_descales():
    q, k, v = [x.to(torch.float8_e4m3fn) for x in qkv()]
    scales = {name: torch.tensor(value)[None, None, None] for name, value in
              (("q_descale", 0.5), ("k_descale", 2.0), ("v_descale", 0.25))}
    o = volley.attention(q, k, v, **scales)
    assert o.dtype == torch.bfloat16
    close(o, sdpa(q.float() * 0.5, k.float() * 2, v.float() * 0.25))


def test_dropout_is_a_function_of_seed_and_offset():
    q, k, v = qkv()
    first = volley.attention(q, k, v, dropout_p=0.4, seed=7)
    assert torch.equal(first, volley.attention(q, k, v, dropout_p=0.4, seed=torch.tensor(7)))
    for other in ({"seed": 8}, {"seed": 7, "dropout_offset": 1}):
        assert not torch.equal(first, volley.attention(q, k, v, dropout_p=0.4, **other))
    ones = torch.ones_like(v)
    mean = volley.attention(torch.zeros_like(q), k, ones, dropout_p=0.4, seed=7).mean()
    assert abs(mean - 1) < 0.05


def test_deterministic_and_batch_invariant():
    q, k, v = qkv(b=3)
    together = volley.attention(q, k, v, deterministic=True, batch_invariant=True)
    for n in range(3):
        alone = volley.attention(q[n:n + 1], k[n:n + 1], v[n:n + 1])
        assert torch.equal(alone[0], together[n])
