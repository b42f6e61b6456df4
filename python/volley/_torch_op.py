# SPDX-License-Identifier: BSD-3-Clause
"""The operators volley::attention, volley::attention_out and volley::attention_backward, with which
PyTorch differentiates, traces and compiles Volley's calls.

They take what _call.py takes, spread out: q, k, v, then Operands, then Options (see _spread).
Each has a fake kernel, which knows shapes and strides without computing. Imported when the first
tensor arrives; needs PyTorch 2.4 or newer.
"""
from __future__ import annotations

from types import ModuleType

import torch

from . import _abi, _call, _torch_arrays
from ._options import REALS, Operands, Options

_OPERANDS = len(Operands._fields)
_DIFFERENTIABLE = ("q", "k", "v", "sink", "bias")
_REQUEST = ", ".join([f"Tensor? {name}" for name in Operands._fields] +
                     ["float? scale", "float softcap", "float dropout_p", "SymInt[] integers"])


def _spread(operands: Operands, options: Options) -> tuple:
    """As arguments of an operator: the integers are one, for PyTorch's cost goes with the square of
    the number of arguments."""
    return (*operands, *options[:REALS], list(options[REALS:]))


def _request(spread) -> tuple[Operands, Options]:
    *reals, integers = spread[_OPERANDS:]
    return Operands(*spread[:_OPERANDS]), Options(*reals, *integers)


# ---- volley::attention ---------------------------------------------------------------------------


def _expect_one_device(q, **others) -> None:
    """For the fake kernels: the library judges what has memory."""
    for name, x in others.items():
        if x is not None and x.device != q.device:
            raise ValueError(f"{name} is on device {x.device}, q is on {q.device}")


@torch.library.custom_op("volley::attention", mutates_args=(), schema=(
    f"(Tensor q, Tensor k, Tensor v, {_REQUEST}) -> (Tensor o, Tensor lse)"))
def _attention(q, k, v, *spread):
    return _call.forward(_torch_arrays, q, k, v, *_request(spread))


@_attention.register_fake
def _attention_fake(q, k, v, *spread):
    operands = _request(spread)[0]
    _expect_one_device(q, k=k, v=v, **operands._asdict())
    o, lse = _call.output_shapes(q, k, v, operands)
    code = _torch_arrays.dtype_code(q)
    return (_torch_arrays.empty(q, o, _abi.BF16 if code == _abi.E4M3 else code),
            _torch_arrays.empty(q, lse, _call.lse_code(code)))


# ---- volley::attention_out: writes o into memory of the caller's ---------------------------------


@torch.library.custom_op("volley::attention_out", mutates_args=("out",), schema=(
    f"(Tensor(a!) out, Tensor q, Tensor k, Tensor v, {_REQUEST}) -> Tensor"))
def _attention_out(out, q, k, v, *spread):
    return _call.forward(_torch_arrays, q, k, v, *_request(spread), out=out)[1]


@_attention_out.register_fake
def _attention_out_fake(out, q, k, v, *spread):
    _expect_one_device(q, out=out)
    return _attention_fake(q, k, v, *spread)[1]


# ---- volley::attention_backward ------------------------------------------------------------------


@torch.library.custom_op("volley::attention_backward", mutates_args=(), schema=(
    "(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor? dlse, "
    f"{_REQUEST}) -> Tensor[]"))
def _attention_backward(dout, q, k, v, o, lse, dlse, *spread):
    return _call.backward(_torch_arrays, dout, q, k, v, o, lse, dlse, *_request(spread))


@_attention_backward.register_fake
def _attention_backward_fake(dout, q, k, v, o, lse, dlse, *spread):
    operands = _request(spread)[0]
    _expect_one_device(q, do=dout, k=k, v=v, o=o, lse=lse, dlse=dlse, **operands._asdict())
    return list(_call.empty_gradients(_torch_arrays, q, k, v, operands).values())


# ---- Gradients -----------------------------------------------------------------------------------


def _of_backward(options) -> tuple:
    """The options of a forward for its backward: sm90 has none, so there a plan chooses."""
    *reals, integers = options
    options = Options(*reals, *integers)
    if options.backend == _abi.BACKENDS["sm90"]:
        options = options._replace(backend=_abi.BACKENDS["auto"])
    return _spread(Operands(), options)[_OPERANDS:]


def _save(ctx, inputs, output) -> None:
    q, k, v, *spread = inputs
    ctx.set_materialize_grads(False)
    ctx.options = _of_backward(spread[_OPERANDS:])
    ctx.save_for_backward(q, k, v, *output, *spread[:_OPERANDS])


def _differentiate(ctx, do, dlse):
    q, k, v, o, lse, *spread = ctx.saved_tensors
    operands = Operands(*spread)
    if do is None:
        do = torch.zeros_like(o)
    dq, dk, dv, *others = _attention_backward(do, q, k, v, o, lse, dlse, *operands, *ctx.options)
    gradients = dict.fromkeys(Operands._fields)
    for name in ("sink", "bias"):
        x = getattr(operands, name)
        if x is not None:
            gradients[name] = others.pop(0).to(x.dtype)
    return dq, dk, dv, *gradients.values(), *[None] * len(ctx.options)


_attention.register_autograd(_differentiate, setup_context=_save)


# ---- What _attention.py calls: the names of _call.py ---------------------------------------------


def forward(kind: ModuleType, q, k, v, operands: Operands, options: Options, out=None):
    if torch.is_grad_enabled():
        for name, x in {"q": q, "k": k, "v": v, "out": out, **operands._asdict()}.items():
            if x is None or not x.requires_grad:
                continue
            if out is not None:
                raise ValueError(f"{name} requires a gradient, which a call with out does not "
                                 "have: leave out away or use torch.no_grad()")
            if name not in _DIFFERENTIABLE:
                raise ValueError(f"{name} requires a gradient, but there is none with respect to "
                                 f"it: pass {name}.detach()")
    if out is None:
        return _attention(q, k, v, *_spread(operands, options))
    return out, _attention_out(out, q, k, v, *_spread(operands, options))


def backward(kind: ModuleType, do, q, k, v, o, lse, dlse, operands: Operands, options: Options):
    with torch.no_grad():
        return _attention_backward(do, q, k, v, o, lse, dlse, *_spread(operands, options))
