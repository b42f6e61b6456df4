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
