# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch tensors as the C ABI sees them: data_ptr, shape and strides, nothing copied.

One of the kinds of _arrays.py, which lists the functions. Imported when the first tensor arrives.
Tensors on a GPU run on PyTorch's current stream of their device, with workspace from its allocator.
"""
from __future__ import annotations

import torch

from . import _abi
from ._spec import DTYPES

NAME = "a PyTorch tensor"
_ALIGNMENT = 256
_CODES = {getattr(torch, name): code for name, code in DTYPES.items() if hasattr(torch, name)}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_DEVICES = {"cpu": _abi.CPU, "cuda": _abi.CUDA, "meta": _abi.CPU}


def view(name: str, x: torch.Tensor) -> _abi.Tensor:
    code = dtype_code(x, name)
    device = x.device
    if device.type not in _DEVICES or x.layout != torch.strided:
        raise TypeError(f"{name} is a {x.layout} tensor on {device}, wanted is a strided one on "
                        "the cpu or a cuda device")
    _expect_plain(name, x)
    return _abi.tensor(x.data_ptr() or None, code, x.shape, x.stride(), _DEVICES[device.type],
                       device.index or 0)


def dtype_code(x: torch.Tensor, name: str = "q") -> int:
    code = _CODES.get(x.dtype)
    if code is None:
        raise TypeError(f"{name} has dtype {x.dtype}, wanted is one of {', '.join(DTYPES)}")
    return code


def writable(name: str, x: torch.Tensor) -> None:
    if not torch.compiler.is_compiling():  # which cannot ask; _torch_op.py judges gradients
        _expect_plain(name, x)


def _expect_plain(name: str, x: torch.Tensor) -> None:
    if x.is_neg():
        raise ValueError(f"{name} is a view that negates what its memory holds, wanted is one that "
                         f"does not: {name}.resolve_neg()")


def swap_axes(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(-3, -2)


def to_ndim(x: torch.Tensor, ndim: int) -> torch.Tensor:
    for _ in range(ndim - x.ndim):
        x = x.unsqueeze(0)
    return x


def empty(like: torch.Tensor, shape, code: int) -> torch.Tensor:
    return torch.empty(shape, dtype=_DTYPES[code], device=like.device)


def integer(like: torch.Tensor, value: int) -> torch.Tensor:
    return torch.full((), value, dtype=torch.int64, device=like.device)


def workspace(like: torch.Tensor, size: int):
    """(memory to keep alive, address) of size bytes at an aligned address."""
    memory = torch.empty(size + _ALIGNMENT, dtype=torch.uint8, device=like.device)
    return memory, -(-memory.data_ptr() // _ALIGNMENT) * _ALIGNMENT


def stream(like: torch.Tensor):
    return torch.cuda.current_stream(like.device).cuda_stream if like.is_cuda else None
