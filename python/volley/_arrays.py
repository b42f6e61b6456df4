# SPDX-License-Identifier: BSD-3-Clause
"""Which kind of array is this? A kind is a module with the same few functions:

    NAME                      what a sentence calls such an array
    view(name, x)             the volley_tensor of x
    dtype_code(x)             its VOLLEY_* code
    writable(name, x)         raises if results cannot be written into x
    swap_axes(x)              (b, s, h, d) seen as (b, h, s, d), or back
    to_ndim(x, n)             x with axes of size 1 put before
    empty(like, shape, code)  a new array beside `like`
    integer(like, value)      an int64 scalar beside `like`
    workspace(like, size)     (owner, aligned address)
    stream(like)              the CUDA stream of work on `like`, or None

They are _numpy_arrays, _torch_arrays and, for planning only, _spec. PyTorch is never imported
here: who passes a tensor has imported it.
"""
from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Callable

import numpy as np

from . import _abi, _numpy_arrays, _spec


def torch_kind() -> ModuleType | None:
    """The kind of PyTorch's tensors, or None where the program has not imported PyTorch."""
    if sys.modules.get("torch") is None:
        return None
    from . import _torch_arrays
    return _torch_arrays


def kind_of(name: str, x) -> ModuleType:
    if isinstance(x, np.ndarray):
        if type(x) is not np.ndarray and isinstance(x, np.ma.MaskedArray):
            raise TypeError(f"{name} is a masked array, whose mask would be ignored: give its data "
                            "and, where it fits, mask")
        return _numpy_arrays
    torch = torch_kind()
    if torch is not None and isinstance(x, torch.torch.Tensor):
        if x.is_nested:
            raise TypeError(f"{name} is a nested tensor, wanted is a strided one: "
                            "attention_varlen takes sequences of different lengths")
        return torch
    if isinstance(x, _spec.Spec):
        return _spec
    found = "None" if x is None else f"a {type(x).__name__}"
    raise TypeError(f"{name} is {found}, wanted is a NumPy array or a PyTorch tensor")


def as_array(x):
    """x, or a NumPy view of what has an __array_interface__ without being one."""
    if hasattr(x, "__array_interface__") and not isinstance(x, np.ndarray):
        return np.asarray(x)
    return x


def expect_kind(kind: ModuleType, name: str, x, first: str = "q") -> None:
    found = kind_of(name, x)
    if found is not kind:
        raise TypeError(f"{name} is {found.NAME}, but {first} is {kind.NAME}: give arrays of one "
                        "kind")


class _Addresses:
    """Where the elements of a view lie, for NumPy to compare; nobody reads them."""

    def __init__(self, view: _abi.Tensor):
        size = (view.dtype >> 8 & 0xFF) // 8
        self.__array_interface__ = {
            "version": 3, "typestr": f"|V{size}", "data": (view.data or 0, True),
            "shape": tuple(view.shape[:view.ndim]),
            "strides": tuple(size * stride for stride in view.stride[:view.ndim])}


def expect_apart(name: str, out: _abi.Tensor, views: dict[str, _abi.Tensor]) -> None:
    """Raises if an element of an input lies where the output is to be written."""
    written = np.asarray(_Addresses(out))
    for other, view in views.items():
        try:
            shared = np.shares_memory(written, np.asarray(_Addresses(view)),
                                      max_work=100_000)  # type: ignore[arg-type]
        except RuntimeError:  # NumPy's TooHardError: strides that nobody has
            shared = False
        if shared:
            raise ValueError(f"{name} shares memory with {other}, wanted is memory of its own")


def swapper(layout: str, kind: ModuleType, packed: bool = False) -> Callable[[Any], Any]:
    """What turns q, k, v, o and their gradients into the library's layout, and back."""
    if layout == "bshd":
        return lambda x: x
    if layout != "bhsd":
        raise ValueError(f"layout is {layout!r}, wanted is 'bshd' or 'bhsd'")
    if packed:
        raise ValueError("layout is 'bhsd', but packed arrays are (total, h, d)")
    return lambda x: kind.swap_axes(x) if x is not None and len(x.shape) >= 4 else x
