# SPDX-License-Identifier: BSD-3-Clause
"""NumPy arrays as the C ABI sees them: pointer, shape and strides, nothing copied.

One of the kinds of _arrays.py, which lists the functions. bfloat16 and float8_e4m3fn are those of
ml_dtypes, known by their names: only who brings such an array needs that package.
"""
from __future__ import annotations

import numpy as np

from . import _abi
from ._spec import DTYPES, NAMES

NAME = "a NumPy array"
_ALIGNMENT = 256
_codes: dict = {}  # np.dtype -> code: the names of ml_dtypes' are slow to ask for


def view(name: str, x: np.ndarray) -> _abi.Tensor:
    code = dtype_code(x, name)
    size = x.itemsize
    strides = [stride // size for stride in x.strides]
    if any([stride % size for stride in x.strides]):
        raise ValueError(f"{name} has strides of {x.strides} bytes, wanted multiples of its "
                         f"elements' {size}")
    return _abi.tensor(x.__array_interface__["data"][0], code, x.shape, strides)


def dtype_code(x: np.ndarray, name: str = "q") -> int:
    code = _codes.get(x.dtype)
    if code is None:
        code = DTYPES.get(x.dtype.name) if x.dtype.isnative else None
        if code is None:
            raise TypeError(f"{name} has dtype {x.dtype}, wanted is one of {', '.join(DTYPES)}")
        _codes[x.dtype] = code
    return code


def writable(name: str, x: np.ndarray) -> None:
    if not x.flags.writeable:
        raise ValueError(f"{name} is a read-only array, wanted is one to write to")


def swap_axes(x: np.ndarray) -> np.ndarray:
    return x.swapaxes(-3, -2)


def to_ndim(x: np.ndarray, ndim: int) -> np.ndarray:
    return x[(None,) * max(ndim - x.ndim, 0)]


def empty(like: np.ndarray, shape, code: int) -> np.ndarray:
    if code == _abi.BF16:  # for inputs of ml_dtypes only
        import ml_dtypes
        return np.empty(shape, ml_dtypes.bfloat16)
    return np.empty(shape, NAMES[code])


def integer(like: np.ndarray, value: int) -> np.ndarray:
    return np.array(value, np.int64)


def workspace(like: np.ndarray, size: int):
    """(memory to keep alive, address) of size bytes at an aligned address."""
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    address = memory.__array_interface__["data"][0]
    return memory, -(-address // _ALIGNMENT) * _ALIGNMENT


def stream(like: np.ndarray) -> None:
    return None
