# SPDX-License-Identifier: BSD-3-Clause
"""What a call asks beside q, k and v, in the C ABI's terms.

Operands are further tensors, Options plain numbers. Both are flat tuples with one order, so that a
PyTorch operator can take them as arguments. `attention_options` makes them from the keywords of the
public functions; it is the one list of those keywords. Read _call.py next.
"""
from __future__ import annotations

import numbers
import operator
from typing import Any, NamedTuple, Optional

from . import _abi, _arrays


class Operands(NamedTuple):
    """In the order of _abi.OPERANDS."""
    cu_seqlens_q: Any = None
    cu_seqlens_k: Any = None
    seqused_q: Any = None
    seqused_k: Any = None
    page_table: Any = None
    sink: Any = None
    bias: Any = None
    alibi_slopes: Any = None
    mask: Any = None
    q_descale: Any = None
    k_descale: Any = None
    v_descale: Any = None
    dropout_seed: Any = None
    dropout_offset: Any = None

    @property
    def packed(self) -> bool:
        return self.cu_seqlens_q is not None or self.cu_seqlens_k is not None


class Options(NamedTuple):
    """Fields of volley_problem: REALS real numbers, then integers."""
    scale: Optional[float]  # None: 1/sqrt(d)
    softcap: float
    dropout_p: float
    backend: int
    causal: int
    mask_alignment: int
    mask_offset: int
    window_left: int
    window_right: int
    max_seqlen_q: int
    max_seqlen_k: int
    precision: int
    deterministic: int
    batch_invariant: int


REALS = 3


def _choice(name: str, value, table: dict, default: str) -> int:
    value = default if value is None else value
    if not isinstance(value, str) or value not in table:
        raise ValueError(f"{name} is {value!r}, wanted is one of {', '.join(map(repr, table))}")
    return table[value]


def _integer(name: str, value) -> int:
    try:  # an int stays what it is: PyTorch's compiler makes a symbol of it
        value = value if isinstance(value, int) else operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is a {type(value).__name__}, wanted is a whole number") from None
    if not -2**63 <= value < 2**63:
        raise ValueError(f"{name} is {value}, wanted is a number of 64 bits")
    return value


def _real(name: str, value) -> float:
    try:
        if not isinstance(value, (str, bytes)):
            return float(value)
    except OverflowError:
        raise ValueError(f"{name} is {value}, which no float can hold") from None
    except TypeError:
        pass
    raise TypeError(f"{name} is a {type(value).__name__}, wanted is a number")


def _alignment(mask_alignment, mask_offset) -> tuple[int, int]:
    alignment = _choice("mask_alignment", mask_alignment, _abi.ALIGNMENTS, "bottom_right")
    if mask_offset is None:
        if alignment == _abi.ALIGNMENTS["explicit"]:
            raise ValueError("mask_alignment is 'explicit', which needs a mask_offset")
        return alignment, 0
    if alignment == _abi.ALIGNMENTS["top_left"]:
        raise ValueError(f"mask_offset is {mask_offset}, which excludes mask_alignment 'top_left'")
    return _abi.ALIGNMENTS["explicit"], _integer("mask_offset", mask_offset)


def _window(window) -> tuple[int, int]:
    try:
        left, right = window
    except (TypeError, ValueError):
        raise ValueError(f"window is {window!r}, wanted is (left, right), -1 for an open side") \
            from None
    return _integer("window[0]", left), _integer("window[1]", right)


def _dropout_words(kind, like, dropout_p: float, seed, offset) -> tuple[Any, Any]:
    """Seed and offset as int64 scalars beside `like`; what is an array already stays on its device,
    for the library to read at run time."""
    if not dropout_p > 0:
        return None, None
    if seed is None:
        raise ValueError(f"dropout_p is {dropout_p}, but seed is None; wanted is a whole number")
    words = [("seed", seed), ("dropout_offset", offset)]
    for name, x in words:
        if isinstance(x, (float, str)):
            raise TypeError(f"{name} is a {type(x).__name__}, wanted is a whole number, or an "
                            "int64 scalar as an array")
    return tuple(kind.integer(like, _integer(name, x)) if isinstance(x, numbers.Integral) else x
                 for name, x in words)


def attention_options(
        kind, q, *, causal=False, window=(-1, -1), mask_alignment="bottom_right", scale=None,
        softcap=0.0, sink=None, bias=None, alibi_slopes=None, q_descale=None, k_descale=None,
        v_descale=None, precision=None, mask=None, mask_offset=None, dropout_p=0.0, seed=None,
        dropout_offset=0, seqused_q=None, seqused_k=None, page_table=None, deterministic=False,
        batch_invariant=False, backend=None, cu_seqlens_q=None, cu_seqlens_k=None,
        max_seqlen_q=None, max_seqlen_k=None) -> tuple[Operands, Options]:
    """The operands, each judged to be of q's kind, and the options of a call."""
    dropout_p = _real("dropout_p", dropout_p)
    operands = Operands(
        cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, page_table, sink, bias, alibi_slopes,
        mask, q_descale, k_descale, v_descale,
        *_dropout_words(kind, q, dropout_p, seed, dropout_offset))
    operands = Operands(*[None if x is None else _arrays.as_array(x) for x in operands])
    for name, x in zip(_abi.OPERANDS, operands):
        if x is not None:
            _arrays.expect_kind(kind, name, x)
    if bias is not None:
        operands = operands._replace(bias=kind.to_ndim(operands.bias, 4))
    if mask is not None:
        operands = operands._replace(mask=kind.to_ndim(operands.mask, 4))
    alignment, offset = _alignment(mask_alignment, mask_offset)
    left, right = _window(window)
    return operands, Options(
        None if scale is None else _real("scale", scale), _real("softcap", softcap), dropout_p,
        _choice("backend", backend, _abi.BACKENDS, "auto"), int(bool(causal)), alignment, offset,
        left, right, _integer("max_seqlen_q", max_seqlen_q or 0),
        _integer("max_seqlen_k", max_seqlen_k or 0),
        _choice("precision", precision, _abi.PRECISIONS, "default"), int(bool(deterministic)),
        int(bool(batch_invariant)))
