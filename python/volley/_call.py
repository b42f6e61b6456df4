# SPDX-License-Identifier: BSD-3-Clause
"""From arrays to one call of the library: problem, plan, run. The same for every kind of array.

Everything here has the library's layout, (b, s, h, d) or packed (total, h, d); attention.py turns
others into it. Outputs are new arrays unless they are given.
"""
from __future__ import annotations

import ctypes
import math
from ctypes import byref, c_void_p
from types import ModuleType
from typing import Any

from . import _abi, _arrays
from ._options import Operands, Options

Arrays = dict  # name of volley_problem -> array


def problem_of(op: int, views: dict[str, _abi.Tensor], options: Options) -> _abi.Problem:
    problem = _abi.Problem()
    _abi.lib.volley_problem_init_sized(byref(problem), ctypes.sizeof(problem))
    problem.op = op
    for name, view in views.items():
        setattr(problem, name, ctypes.pointer(view))
    for name, value in zip(Options._fields, options):
        setattr(problem, name, math.nan if value is None else value)
    return problem


class PlanHandle:
    """Owns a volley_plan."""

    def __init__(self, problem: _abi.Problem, device: str | None = None):
        self.handle = c_void_p()
        error = _abi.Error()
        _abi.check(_abi.lib.volley_plan_create(byref(problem),
                                               None if device is None else device.encode(),
                                               byref(self.handle), byref(error)), error)

    def __del__(self):
        if self.handle:
            _abi.lib.volley_plan_destroy(self.handle)


def run(kind: ModuleType, op: int, arrays: Arrays, options: Options, own_o: bool = True) -> None:
    """Plans and runs; `arrays` holds inputs and outputs, None where one is absent. own_o: o is a
    new array, which no input can share."""
    views = {name: kind.view(name, x) for name, x in arrays.items() if x is not None}
    if not own_o:
        _arrays.expect_apart("out", views["o"], {name: view for name, view in views.items()
                                                 if name not in ("o", "lse")})
    problem = problem_of(op, views, options)
    plan = PlanHandle(problem)
    buffers, error = _abi.Buffers(), _abi.Error()
    _abi.check(_abi.lib.volley_buffers_from_problem_sized(
        byref(problem), byref(buffers), ctypes.sizeof(buffers), byref(error)), error)
    size = _abi.lib.volley_plan_workspace_size(plan.handle)
    owner, address = kind.workspace(arrays["q"], size) if size else (None, None)
    status = _abi.lib.volley_run(plan.handle, byref(buffers), address, size,
                                 kind.stream(arrays["q"]), byref(error))
    del owner  # until here the call may use it
    _abi.check(status, error)


def expect_axes(name: str, x: Any, packed: bool, axes: str) -> None:
    """Enough to compute the outputs' shapes; the library judges the rest."""
    wanted = 3 if packed else 4
    if len(x.shape) != wanted:
        raise ValueError(f"{name} has shape {tuple(x.shape)}, wanted {wanted} dims {axes}")


def output_shapes(q: Any, k: Any, v: Any, operands: Operands) -> tuple[tuple, tuple]:
    """The shapes of o and lse."""
    packed = operands.cu_seqlens_q is not None
    packed_k = operands.cu_seqlens_k is not None
    keys = ("({total}, hk, {d})" if packed_k else
            "(pages, page, hk, {d})" if operands.page_table is not None else "(b, sk, hk, {d})")
    expect_axes("q", q, packed, "(total_q, hq, d)" if packed else "(b, sq, hq, d)")
    expect_axes("k", k, packed_k, keys.format(total="total_k", d="d"))
    expect_axes("v", v, packed_k, keys.format(total="total_k", d="dv"))
    o = (*q.shape[:-1], v.shape[-1])
    lse = (q.shape[1], q.shape[0]) if packed else (q.shape[0], q.shape[2], q.shape[1])
    return o, lse


def lse_code(q_code: int) -> int:
    return _abi.F64 if q_code == _abi.F64 else _abi.F32


def forward(kind: ModuleType, q, k, v, operands: Operands, options: Options, out=None):
    """(o, lse)"""
    o_shape, lse_shape = output_shapes(q, k, v, operands)
    code = kind.dtype_code(q)
    o = kind.empty(q, o_shape, _abi.BF16 if code == _abi.E4M3 else code) if out is None else out
    lse = kind.empty(q, lse_shape, lse_code(code))
    run(kind, _abi.FORWARD, {"q": q, "k": k, "v": v, "o": o, "lse": lse, **operands._asdict()},
        options, own_o=out is None)
    return o, lse


def empty_gradients(kind: ModuleType, q, k, v, operands: Operands) -> Arrays:
    """dq, dk, dv, then dsink and dbias where the call has sink and bias."""
    code = kind.dtype_code(q)
    gradients = {"dq": kind.empty(q, q.shape, code),
                 "dk": kind.empty(q, k.shape, kind.dtype_code(k, "k")),
                 "dv": kind.empty(q, v.shape, kind.dtype_code(v, "v"))}
    if operands.sink is not None:
        gradients["dsink"] = kind.empty(q, operands.sink.shape, lse_code(code))
    if operands.bias is not None:
        gradients["dbias"] = kind.empty(q, operands.bias.shape,
                                        kind.dtype_code(operands.bias, "bias"))
    return gradients


def backward(kind: ModuleType, do, q, k, v, o, lse, dlse, operands: Operands, options: Options):
    """The list of the gradients above."""
    gradients = empty_gradients(kind, q, k, v, operands)
    run(kind, _abi.BACKWARD, {"q": q, "k": k, "v": v, "o": o, "lse": lse, "dout": do, "dlse": dlse,
                              **operands._asdict(), **gradients}, options)
    return list(gradients.values())
