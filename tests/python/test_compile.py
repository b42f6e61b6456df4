# SPDX-License-Identifier: BSD-3-Clause
"""The operators under PyTorch's compiler and its own checks of custom operators."""
import torch
import torch._dynamo.testing
from truth import qkv, tensors

import volley
from volley import _torch_arrays, _torch_op
from volley._options import attention_options


def block(q, k, v, sink):
    o, lse = volley.attention(q * 2, k, v, causal=True, sink=sink, return_lse=True)
    return o + 1, lse


def test_compile_fullgraph():
    """With the default backend: the one test that needs a C++ compiler."""
    q, k, v = qkv()
    sink, = tensors((4,), seed=1)
    for x, y in zip(torch.compile(block, fullgraph=True)(q, k, v, sink), block(q, k, v, sink)):
        torch.testing.assert_close(x, y)


def test_compile_with_gradients():
    def loss(q, k, v, sink):
        o, lse = block(q.transpose(1, 2).contiguous().transpose(1, 2), k, v, sink)
        return (o * o).sum() + lse.sum()

    given = [x.requires_grad_() for x in (*qkv(), *tensors((4,), seed=1))]
    wanted = torch.autograd.grad(loss(*given), given)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for x, y in zip(torch.autograd.grad(compiled(*given), given), wanted):
        torch.testing.assert_close(x, y)


def test_compile_layout_out_and_dropout():
    def call(q, k, v, out):
        volley.attention(q, k, v, layout="bhsd", out=out, dropout_p=0.25, seed=5)
        return out * 1

    q, k, v = [x.transpose(1, 2) for x in qkv()]
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    found = compiled(q, k, v, torch.full_like(q, torch.nan))
    assert torch.equal(found, call(q, k, v, torch.full_like(q, torch.nan)))


def test_compile_varlen_with_changing_lengths():
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")

    def call(q, k, v, cu, offset):
        return volley.attention_varlen(q, k, v, cu, cu, causal=True, mask_offset=offset)

    compiled = torch.compile(call, fullgraph=True, backend=counter, dynamic=True)
    for total in (9, 17, 33):
        q, k, v = tensors((total, 4, 16), (total, 2, 16), (total, 2, 16))
        cu = torch.tensor([0, 4, total], dtype=torch.int32)
        assert torch.equal(compiled(q, k, v, cu, total - 7), call(q, k, v, cu, total - 7))
    assert counter.frame_count <= 2  # not a compilation for each length


def test_opcheck():
    q, k, v = [x.requires_grad_() for x in qkv(sq=5, sk=7)]
    sink, bias = [x.requires_grad_() for x in tensors((4,), (5, 7), seed=2)]
    request = _torch_op._spread(*attention_options(_torch_arrays, q, sink=sink, bias=bias,
                                                   causal=True))
    torch.library.opcheck(_torch_op._attention, (q, k, v, *request))
    o, lse = [x.detach() for x in _torch_op._attention(q, k, v, *request)]
    plain = [x.detach() for x in (o, q, k, v, o, lse)]
    request = _torch_op._spread(*attention_options(_torch_arrays, q, sink=sink.detach()))
    torch.library.opcheck(_torch_op._attention_backward, (*plain, None, *request))
    torch.library.opcheck(_torch_op._attention_out, (torch.empty_like(o), *plain[1:4], *request))


def test_shapes_without_memory():
    q, k, v = [x.to("meta") for x in qkv(dv=48, dtype=torch.bfloat16)]
    o, lse = volley.attention(q, k, v, return_lse=True)
    assert (o.shape, o.dtype, lse.shape) == ((2, 37, 4, 48), torch.bfloat16, (2, 4, 37))
