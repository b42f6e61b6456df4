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

from . import _numpy_arrays, _spec


def torch_kind() -> ModuleType | None:
    """The kind of PyTorch's tensors, or None where the program has not imported PyTorch."""
    if sys.modules.get("torch") is None:
        return None
    from . import _torch_arrays
    return _torch_arrays


def kind_of(name: str, x) -> ModuleType:
    if isinstance(x, np.ndarray):
        return _numpy_arrays
    torch = torch_kind()
    if torch is not None and isinstance(x, torch.torch.Tensor):
        return torch
    if isinstance(x, _spec.Spec):
        return _spec
    raise TypeError(f"{name} is a {type(x).__name__}, wanted is a NumPy array or a PyTorch tensor")


def as_array(x):
    """x, or a NumPy view of what has an __array_interface__ without being one."""
    if hasattr(x, "__array_interface__") and not isinstance(x, np.ndarray):
        return np.asarray(x)
    return x


def expect_kind(kind: ModuleType, name: str, x) -> None:
    found = kind_of(name, x)
    if found is not kind:
        raise TypeError(f"{name} is {found.NAME}, but q is {kind.NAME}: give arrays of one kind")


def swapper(layout: str, kind: ModuleType) -> Callable[[Any], Any]:
    """What turns q, k, v, o and their gradients into the library's layout, and back."""
    if layout == "bshd":
        return lambda x: x
    if layout != "bhsd":
        raise ValueError(f"layout is {layout!r}, wanted is 'bshd' or 'bhsd'")
    return lambda x: kind.swap_axes(x) if x is not None and len(x.shape) >= 4 else x
