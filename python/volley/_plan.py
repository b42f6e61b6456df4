# SPDX-License-Identifier: BSD-3-Clause
"""plan(): what would run for a call, and why nothing faster. doctor(): what this machine has."""
from __future__ import annotations

import json
from typing import Any

from . import _abi, _arrays, _call, _options


class Plan:
    """What runs for a call: which backend, which kernel, and why nothing faster. Plans compare;
    str() gives the text that the command `volley plan` prints."""

    def __init__(self, handle: _call.PlanHandle):
        self._plan = handle

    @property
    def backend(self) -> str:
        """"cpu", "sm90", "sm80" or "reference"."""
        return _abi.lib.volley_backend_name(_abi.lib.volley_plan_backend(self._handle)).decode()

    @property
    def reason(self) -> str:
        """Why the fastest backend of this device was passed over; "none" if it runs."""
        return _abi.lib.volley_reason_name(_abi.lib.volley_plan_reason(self._handle)).decode()

    @property
    def workspace_size(self) -> int:
        """Bytes of scratch memory that a call takes."""
        return _abi.lib.volley_plan_workspace_size(self._handle)

    def json(self) -> dict:
        """All of it, with a sentence for each backend that was passed over."""
        return json.loads(self._describe(_abi.JSON))

    def __str__(self) -> str:
        return self._describe(_abi.TEXT)

    def __repr__(self) -> str:
        return f"<volley.Plan on {self.backend}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and bool(
            _abi.lib.volley_plan_equal(self._handle, other._handle))

    __hash__ = None  # type: ignore[assignment]

    @property
    def _handle(self):
        return self._plan.handle

    def _describe(self, format: int) -> str:
        return _abi.text_of(lambda buffer, capacity: _abi.lib.volley_plan_describe(
            self._handle, format, buffer, capacity))


def plan(q, k, v, *, op: str = "forward", device: str | None = None, layout: str = "bshd",
         lse: bool = True, **options: Any) -> Plan:
    """What attention(q, k, v, **options) would run, or attention_backward() with op="backward".

    q, k and v are arrays, or volley.Spec(shape, dtype) for ones that do not exist; so are the
    arrays among the options. device: None for where they are, "cpu", "cuda:0", a torch.device, or a
    machine that is not here: "h200", "h100", "a100", "l40s". lse: whether the call wants it.
    options: those of attention(), and cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k for
    packed arrays.

    Nothing is computed. Raises what the call would raise about shapes, dtypes and options;
    a RuntimeError where no backend offers it says what is missing. Source: src/plan.cpp.
    """
    kind = _arrays.kind_of("q", _arrays.as_array(q))
    q, k, v = map(_arrays.as_array, (q, k, v))
    _arrays.expect_kind(kind, "k", k)
    _arrays.expect_kind(kind, "v", v)
    if op not in ("forward", "backward"):
        raise ValueError(f"op is {op!r}, wanted is 'forward' or 'backward'")
    operands, chosen = _options.attention_options(kind, q, **options)
    swap = _arrays.swapper(layout, kind, packed=operands.packed)
    q, k, v = swap(q), swap(k), swap(v)
    views = {name: kind.view(name, x) for name, x in
             {"q": q, "k": k, "v": v, **operands._asdict()}.items() if x is not None}

    def add(name: str, shape, code: int) -> None:
        views[name] = _abi.tensor(None, code, shape, _abi.contiguous(shape),
                                  views["q"].device_type, views["q"].device_id)

    o_shape, lse_shape = _call.output_shapes(q, k, v, operands)
    code = kind.dtype_code(q)
    add("o", o_shape, _abi.BF16 if code == _abi.E4M3 else code)
    if lse or op == "backward":
        add("lse", lse_shape, _call.lse_code(code))
    if op == "backward":
        add("dout", o_shape, code)
        for name, x in (("dq", q), ("dk", k), ("dv", v)):
            add(name, x.shape, kind.dtype_code(x))
        if operands.sink is not None:
            add("dsink", operands.sink.shape, _call.lse_code(code))
        if operands.bias is not None:
            add("dbias", operands.bias.shape, kind.dtype_code(operands.bias))
    problem = _call.problem_of(_abi.BACKWARD if op == "backward" else _abi.FORWARD, views, chosen)
    return Plan(_call.PlanHandle(problem, None if device is None else str(device)))


def doctor() -> str:
    """What this machine and this build have, what would run, what is missing and how to get it: the
    text that the command `volley doctor` prints."""
    return _abi.text_of(lambda buffer, capacity: _abi.lib.volley_doctor(_abi.TEXT, buffer,
                                                                        capacity))
