# SPDX-License-Identifier: BSD-3-Clause
"""Gradients: through autograd and by attention_backward, against float64 autograd of the truth."""
import pytest
import torch
from truth import TOLERANCE, band, close, leaves, qkv, spelled_out, tensors

import volley


def gradients(loss, xs):
    return torch.autograd.grad(loss, xs)


def loss_of(o, lse, do, dlse):
    return (o.double() * do.double()).sum() + (lse.double() * dlse.double()).sum()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("options", [
    {}, {"causal": True}, {"window": (5, 2)}, {"softcap": 1.5, "scale": 0.4}])
def test_autograd(dtype, options):
    q, k, v = leaves(*qkv(sq=19, sk=23, d=16, dtype=dtype))
    do, dlse = tensors(q.shape, (2, 4, 19), dtype=dtype, seed=3)
    o, lse = volley.attention(q, k, v, return_lse=True, **options)
    found = gradients(loss_of(o, lse, do, dlse), (q, k, v))
    seen = band(19, 23, options.get("causal"), options.get("window", (-1, -1)))
    others = {name: x for name, x in options.items() if name in ("softcap", "scale")}
    wanted = gradients(loss_of(*spelled_out(q, k, v, seen, **others), do, dlse), (q, k, v))
    for x, y in zip(found, wanted):
        assert x.dtype == dtype
        close(x, y, factor=4)


@pytest.mark.parametrize("shape", [(19, 23), (1, 4, 1, 23), (2, 4, 19, 23)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sink_and_bias(shape, dtype):
    q, k, v = leaves(*qkv(sq=19, sk=23, d=16, dtype=dtype))
    sink, bias = leaves(*tensors((4,), shape, dtype=dtype, seed=4))
    do, dlse = tensors(q.shape, (2, 4, 19), dtype=dtype, seed=5)
    o, lse = volley.attention(q, k, v, sink=sink, bias=bias, causal=True, return_lse=True)
    found = gradients(loss_of(o, lse, do, dlse), (q, k, v, sink, bias))
    wanted = spelled_out(q, k, v, band(19, 23, True), bias, sink=sink)
    wanted = gradients(loss_of(*wanted, do, dlse), (q, k, v, sink, bias))
    for x, y in zip(found, wanted):
        assert x.dtype == dtype
        close(x, y, factor=16)  # sums over up to 152 rows


def test_through_lse_alone():
    q, k, v = leaves(*qkv(sq=5, sk=7, dtype=torch.float64))
    lse = volley.attention(q, k, v, return_lse=True)[1]
    dq, dk, dv = gradients(lse.sum(), (q, k, v))
    wanted_q, wanted_k = gradients(spelled_out(q, k, v)[1].sum(), (q, k))
    close(dq, wanted_q)
    close(dk, wanted_k)
    assert (dv == 0).all()


def test_odd_strides_of_the_output_gradient():
    q, k, v = leaves(*qkv())
    o = volley.attention(q, k, v, causal=True)
    wanted = torch.autograd.grad((o * 1.0).sum(), (q, k, v), retain_graph=True)  # contiguous ones
    expanded = gradients(volley.attention(q, k, v, causal=True).sum(), (q, k, v))  # strides of 0
    for x, y in zip(expanded, wanted):
        assert torch.equal(x, y)
    do, = tensors(o.shape, seed=6)
    plain = torch.autograd.grad(o, (q, k, v), do, retain_graph=True)
    swapped = do.transpose(1, 2).contiguous().transpose(1, 2)
    for x, y in zip(torch.autograd.grad(o, (q, k, v), swapped), plain):
        assert torch.equal(x, y)


def test_layout_and_views_carry_gradients():
    fused = torch.randn(2, 3, 4, 11, 16, dtype=torch.float64, requires_grad=True)  # b, qkv, h, s, d
    o = volley.attention(*fused.unbind(1), layout="bhsd", causal=True)
    found, = gradients((o * o).sum(), [fused])
    q, k, v = [x.transpose(1, 2) for x in fused.unbind(1)]
    o, _ = spelled_out(q, k, v, band(11, 11, True))
    close(found, gradients((o * o).sum(), [fused])[0])


def test_dropout_of_forward_and_backward_agree():
    q, k, v = qkv(sq=6, sk=9, d=8, dtype=torch.float64)
    given = {"dropout_p": 0.5, "seed": 3}
    torch.autograd.gradcheck(lambda *x: volley.attention(*x, **given), leaves(q, k, v))


def test_varlen():
    q, k, v = leaves(*tensors((11, 4, 16), (13, 2, 16), (13, 2, 16)))
    cu_q = torch.tensor([0, 4, 4, 11], dtype=torch.int32)
    cu_k = torch.tensor([0, 6, 7, 13], dtype=torch.int32)
    o = volley.attention_varlen(q, k, v, cu_q, cu_k, 7, 6, causal=True)
    found = gradients((o * o).sum(), (q, k, v))
    loss = 0
    for n in range(3):
        rows, keys = slice(cu_q[n], cu_q[n + 1]), slice(cu_k[n], cu_k[n + 1])
        one, _ = spelled_out(q[None, rows], k[None, keys], v[None, keys],
                             band(rows.stop - rows.start, keys.stop - keys.start, True))
        close(o[rows], one[0])
        loss = loss + (one * one).sum()
    for x, y in zip(found, gradients(loss, (q, k, v))):
        close(x, y, torch.float32, factor=4)


def test_attention_backward_is_what_autograd_calls():
    q, k, v = leaves(*qkv())
    sink, bias = leaves(*tensors((4,), (37, 53), seed=4))
    given = {"causal": True, "sink": sink, "bias": bias}
    o, lse = volley.attention(q, k, v, return_lse=True, **given)
    do, dlse = tensors(o.shape, lse.shape, seed=3)
    found = volley.attention_backward(do, q, k, v, o, lse, dlse=dlse, **given)
    wanted = gradients(loss_of(o, lse, do, dlse), (q, k, v, sink, bias))
    assert len(found) == 5
    for x, y in zip(found, wanted):
        assert torch.equal(x, y)


def test_no_second_derivative():
    q, k, v = leaves(*qkv(dtype=torch.float64))
    first, = torch.autograd.grad(volley.attention(q, k, v).sum(), [q], create_graph=True)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(first.sum(), [q])


def test_gradients_that_cannot_be_are_refused():
    q, k, v = leaves(*qkv())
    with pytest.raises(ValueError, match="q requires a gradient, which a call with out"):
        volley.attention(q, k, v, out=torch.empty_like(q))
    slopes, = leaves(torch.ones(4))
    with pytest.raises(ValueError, match="alibi_slopes requires a gradient, but there is none"):
        volley.attention(q, k, v, alibi_slopes=slopes)
    with torch.no_grad():
        volley.attention(q, k, v, out=torch.empty_like(q))
        volley.attention(q, k, v, alibi_slopes=slopes)
    with pytest.raises(ValueError, match="o_parts requires a gradient"):
        volley.combine(q[None], torch.zeros(1, 2, 4, 37))
