# SPDX-License-Identifier: BSD-3-Clause
"""Spec: the shape and dtype of an array that need not exist; what volley.plan() asks about."""
from __future__ import annotations

import operator
from typing import Optional, Sequence

from . import _abi

DTYPES = {"float32": _abi.F32, "float16": _abi.F16, "bfloat16": _abi.BF16, "float64": _abi.F64,
          "float8_e4m3fn": _abi.E4M3, "float8_e8m0fnu": _abi.E8M0, "int32": _abi.I32,
          "int64": _abi.I64, "bool": _abi.BOOL}
NAMES = {code: name for name, code in DTYPES.items()}


def _whole_numbers(name: str, values) -> tuple[int, ...]:
    try:
        numbers = tuple(map(operator.index, values))
    except TypeError:
        raise TypeError(f"{name} is {values!r}, wanted are whole numbers") from None
    if any(not -2**63 <= x < 2**63 for x in numbers):
        raise ValueError(f"{name} is {numbers}, wanted are numbers of 64 bits")
    return numbers


class Spec:
    """An array to plan with: no memory behind it.

    shape: sizes of the axes. dtype: its name, "bfloat16", "float16", "float32", "float8_e4m3fn",
    "float64", "int32", "int64" or "bool". strides: in elements; contiguous unless given.
    """

    def __init__(self, shape: Sequence[int], dtype: str = "bfloat16",
                 strides: Optional[Sequence[int]] = None):
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise TypeError(f"dtype is {dtype!r}, wanted one of {', '.join(DTYPES)}")
        self.shape = _whole_numbers("shape", shape)
        self.dtype = dtype
        self.strides = _whole_numbers(
            "strides", _abi.contiguous(self.shape) if strides is None else strides)
        if len(self.strides) != len(self.shape):
            raise ValueError(f"strides has {len(self.strides)} entries, shape has "
                             f"{len(self.shape)}")

    def __repr__(self) -> str:
        return f"Spec({self.shape}, {self.dtype!r})"


# The functions of an array kind (_arrays.py), as far as planning needs them.

NAME = "a volley.Spec"


def view(name: str, x: Spec) -> _abi.Tensor:
    return _abi.tensor(None, DTYPES[x.dtype], x.shape, x.strides)


def swap_axes(x: Spec) -> Spec:
    order = list(range(len(x.shape)))
    order[-3], order[-2] = order[-2], order[-3]
    return Spec([x.shape[i] for i in order], x.dtype, [x.strides[i] for i in order])


def to_ndim(x: Spec, ndim: int) -> Spec:
    missing = max(ndim - len(x.shape), 0)
    return Spec((1,) * missing + x.shape, x.dtype, (0,) * missing + x.strides)


def integer(like: Spec, value: int) -> Spec:
    return Spec((), "int64")


def dtype_code(x: Spec) -> int:
    return DTYPES[x.dtype]
