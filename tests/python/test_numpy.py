# SPDX-License-Identifier: BSD-3-Clause
"""NumPy arrays: the same values as PyTorch's, zero-copy through __array_interface__, dtypes."""
import ml_dtypes
import numpy as np
import pytest
import torch
from truth import band, close, qkv, sdpa, spelled_out, tensors

import volley

DTYPES = {np.float64: torch.float64, np.float32: torch.float32, np.float16: torch.float16,
          ml_dtypes.bfloat16: torch.bfloat16}


def arrays(dtype=np.float32, **sizes):
    given = qkv(dtype=DTYPES[dtype], **sizes)
    return [x.double().numpy().astype(dtype) for x in given], given


@pytest.mark.parametrize("dtype", DTYPES)
def test_values(dtype):
    (q, k, v), given = arrays(dtype)
    o, lse = volley.attention(q, k, v, causal=True, return_lse=True)
    assert isinstance(o, np.ndarray) and o.dtype == dtype and o.flags.c_contiguous
    close(torch.from_numpy(o.astype(np.float64)), sdpa(*given, band(37, 53, True)), DTYPES[dtype])
    wanted = spelled_out(*given, band(37, 53, True))[1]
    close(torch.from_numpy(lse), wanted, torch.float32)


def test_same_bits_as_pytorch():
    (q, k, v), given = arrays()
    assert np.array_equal(volley.attention(q, k, v), volley.attention(*given).numpy())


def test_e4m3():
    given = [x.to(torch.float8_e4m3fn) for x in qkv()]
    q, k, v = [x.view(torch.uint8).numpy().view(ml_dtypes.float8_e4m3fn) for x in given]
    scale = np.full((1, 1, 1), 0.5, np.float32)
    o = volley.attention(q, k, v, v_descale=scale)
    assert o.dtype == ml_dtypes.bfloat16
    close(torch.from_numpy(o.astype(np.float32)), sdpa(*[x.float() for x in given]) * 0.5,
          torch.bfloat16)


VIEWS = {
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2),
    "reversed": lambda x: np.ascontiguousarray(x[:, ::-1])[:, ::-1],
    "sliced": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "offset by one element": lambda x: np.append(x.dtype.type(0), x)[1:].reshape(x.shape),
    "read-only": lambda x: np.lib.stride_tricks.as_strided(x, writeable=False),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_views_are_taken_as_they_are(name, dtype):
    (q, k, v), _ = arrays(dtype)
    wanted = volley.attention(q, k, v)
    views = [VIEWS[name](x) for x in (q, k, v)]
    before = [x.__array_interface__["data"][0] for x in views]
    assert np.array_equal(volley.attention(*views), wanted)
    assert before == [x.__array_interface__["data"][0] for x in views]


def test_broadcast_inputs():
    (q, k, v), _ = arrays(hk=1)
    many = [np.broadcast_to(x, (2, 53, 4, 32)) for x in (k, v)]
    assert np.array_equal(volley.attention(q, *many), volley.attention(q, k, v))


class Holder:
    """Not an array, but has an array interface."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


def test_array_interface():
    (q, k, v), _ = arrays()
    assert np.array_equal(volley.attention(*map(Holder, (q, k, v))), volley.attention(q, k, v))


def test_array_interface_of_a_bias_and_its_gradient():
    (q, k, v), _ = arrays()
    bias = np.ones((4, 37, 53), np.float32)
    o, lse = volley.attention(q, k, v, bias=Holder(bias), return_lse=True)
    dbias = volley.attention_backward(o, q, k, v, o, lse, bias=Holder(bias))[-1]
    assert dbias.shape == bias.shape


def laid_out_anyhow(chance, x):
    """(a view of x's values, all the memory that it lies in, NaN in between): axes in any order and
    direction, gaps, an offset."""
    order = chance.permutation(x.ndim)
    steps = chance.integers(1, 3, x.ndim)
    sizes = [x.shape[axis] * steps[axis] + chance.integers(0, 3) for axis in order]
    memory = np.full(np.prod(sizes) + 3, np.nan, x.dtype)
    offset = chance.integers(0, 4)
    whole = memory[offset:offset + np.prod(sizes)].reshape(sizes).transpose(np.argsort(order))
    part = whole[tuple(slice(0, n * step, step) for n, step in zip(x.shape, steps))]
    view = np.flip(part, [axis for axis in range(x.ndim) if chance.random() < 0.3])
    view[...] = x
    return view, memory


@pytest.mark.parametrize("seed", range(40))
def test_strides_do_not_change_a_bit(seed):
    chance = np.random.default_rng(seed)
    b, hk, group, sq, sk, d, dv = [int(chance.integers(1, n)) for n in (3, 3, 4, 90, 90, 70, 70)]
    dtype = [np.float32, np.float16, ml_dtypes.bfloat16][seed % 3]
    q, k, v, do = [chance.standard_normal(shape, np.float32).astype(dtype) for shape in
                   ((b, sq, hk * group, d), (b, sk, hk, d), (b, sk, hk, dv),
                    (b, sq, hk * group, dv))]
    bias = chance.standard_normal((hk * group, sq, sk), np.float32)
    given = {"causal": bool(seed % 2), "backend": "cpu"}
    o, lse = volley.attention(q, k, v, bias=bias, return_lse=True, **given)
    wanted = volley.attention_backward(do, q, k, v, o, lse, bias=bias, **given)
    views = [laid_out_anyhow(chance, x)[0] for x in (do, q, k, v, o, lse, bias)]
    out, memory = laid_out_anyhow(chance, np.zeros_like(o))
    volley.attention(*views[1:4], bias=views[6], out=out, **given)
    assert np.array_equal(out, o)
    out[...] = np.nan
    assert np.isnan(memory).all()  # nothing was written beside it
    found = volley.attention_backward(*views[:6], bias=views[6], **given)
    for x, y in zip(found, wanted):
        assert np.array_equal(x, y)


def test_out_is_written_in_place():
    (q, k, v), _ = arrays()
    memory = np.full((2, 37, 2, 4, 32), np.nan, np.float32)
    out = memory[:, :, 0]
    assert volley.attention(q, k, v, out=out) is out
    assert np.array_equal(out, volley.attention(q, k, v)) and np.isnan(memory[:, :, 1]).all()


def test_backward():
    (q, k, v), given = arrays(np.float64)
    leaves = [x.requires_grad_() for x in given]
    bias, = tensors((37, 53), dtype=torch.float64, seed=8)
    do, = tensors(q.shape, dtype=torch.float64, seed=9)
    o, lse = volley.attention(q, k, v, bias=bias.numpy(), return_lse=True)
    found = volley.attention_backward(do.numpy(), q, k, v, o, lse, bias=bias.numpy())
    leaves.append(bias.requires_grad_())
    wanted = torch.autograd.grad((spelled_out(*leaves[:3], bias=bias)[0] * do).sum(), leaves)
    assert [x.shape for x in found] == [tuple(x.shape) for x in leaves]
    for x, y in zip(found, wanted):
        close(torch.from_numpy(x), y)


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_backward_layouts(layout):
    (q, k, v), _ = arrays()
    if layout == "bhsd":
        q, k, v = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v)]
    o, lse = volley.attention(q, k, v, layout=layout, return_lse=True)
    gradients = volley.attention_backward(np.ones_like(o), q, k, v, o, lse, layout=layout)
    assert [x.shape for x in gradients] == [q.shape, k.shape, v.shape]
    np.testing.assert_allclose(gradients[2].sum(), o.size, rtol=1e-5)  # each weight sums to 1
