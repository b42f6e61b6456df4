# SPDX-License-Identifier: BSD-3-Clause
"""The calls that compute: attention, attention_varlen, attention_backward, combine.

Each brings its arguments into the library's terms (_options.py, the layout) and hands over to
_call.py, or for PyTorch tensors to the operators of _torch_op.py. What is computed is in
docs/contract.md. Read _call.py next.
"""
from __future__ import annotations

from ctypes import byref
from types import ModuleType
from typing import Any

from . import _abi, _arrays, _call, _options, _spec


def _kind_of_all(needed: dict[str, Any], **optional: Any) -> tuple[ModuleType, list]:
    """The kind that all of them have, and the arrays; only the optional ones may be None."""
    found = {name: _arrays.as_array(x) for name, x in {**needed, **optional}.items()}
    first = next(iter(needed))
    kind = _arrays.kind_of(first, found[first])
    if kind is _spec:
        raise TypeError(f"{first} is a volley.Spec, which has no memory: it is for volley.plan()")
    for name, x in found.items():
        if x is not None or name in needed:
            _arrays.expect_kind(kind, name, x, first)
    return kind, list(found.values())


def _forward(q, k, v, out, layout: str, return_lse: bool, **options: Any):
    kind, (q, k, v, out) = _kind_of_all({"q": q, "k": k, "v": v}, out=out)
    operands, chosen = _options.attention_options(kind, q, **options)
    swap = _arrays.swapper(layout, kind)
    implementation: Any = _call
    if kind is _arrays.torch_kind():
        from . import _torch_op as implementation
    if out is not None:
        kind.writable("out", out)
    o, lse = implementation.forward(kind, swap(q), swap(k), swap(v), operands, chosen,
                                    out=swap(out))
    o = swap(o) if out is None else out
    return (o, lse) if return_lse else o


def attention(q, k, v, *, layout: str = "bshd", causal: bool = False,
              window: tuple[int, int] = (-1, -1), mask_alignment: str = "bottom_right",
              scale: float | None = None, softcap: float = 0.0, sink=None, bias=None,
              alibi_slopes=None, q_descale=None, k_descale=None, v_descale=None,
              precision: str | None = None, mask=None, mask_offset: int | None = None,
              dropout_p: float = 0.0, seed=None, dropout_offset=0, seqused_q=None, seqused_k=None,
              page_table=None, deterministic: bool = False, batch_invariant: bool = False,
              backend: str | None = None, return_lse: bool = False, out=None):
    """Exact attention of dense (or paged) sequences: softmax(scale * q k^T) v, row by row.

    Arrays are NumPy's (with ml_dtypes for bfloat16 and float8_e4m3fn) or PyTorch's, all of one
    kind, taken with the strides they have: nothing is copied. PyTorch tensors have gradients with
    respect to q, k, v, sink and bias, through o and lse.

    Shapes, with layout "bshd" ("bhsd" has the axes of q, k, v and o as (b, h, s, d)):
        q (b, sq, hq, d); k (b, sk, hk, d); v (b, sk, hk, dv); o (b, sq, hq, dv); lse (b, hq, sq)
        hq is a multiple of hk: query head h reads key head h // (hq // hk)
    Dtypes: float32, float16, bfloat16, float8_e4m3fn; float64 by the reference. o has q's, or
        bfloat16 for float8_e4m3fn; lse is float32, of float64 float64.

    causal: query i sees the keys up to i + offset. window: (left, right), keys that far from
        i + offset, both ends included; -1 is open.
    mask_alignment: what offset is: "bottom_right" sk - sq, "top_left" 0; mask_offset: a number.
    scale: of q k^T, 1/sqrt(d) unless given. softcap: cap * tanh(logit / cap); 0 is none.
    sink: (hq) a logit that joins each row's sum. bias: added to the logits, and mask: bool, True
        may see; both broadcast to (b, hq, sq, sk). alibi_slopes: (hq) or (b, hq) float32.
    q_descale, k_descale, v_descale: (b, heads, blocks of 128 rows) or 1 where it broadcasts, of
        float8_e4m3fn inputs. precision: None, or leave to compute in fewer bits.
    dropout_p: of the weights; needs a seed. seed, dropout_offset: whole numbers, or int64 scalars
        of the arrays' kind, which are read on their device.
    seqused_q, seqused_k: (b) int32, how many rows of each sequence count.
    page_table: (b, pages of a sequence) int32; k and v are then (pages, page, hk, d), and seqused_k
        is needed.
    deterministic, batch_invariant: equal bits in every run; in every batch.
    backend: None, or "reference", "cpu", "sm80", "sm90": it runs or the call fails. The gradients
        are computed by the same, those of "sm90", which has none yet, by what a plan chooses.
    out: an array for o, apart from the inputs; with it PyTorch tensors have no gradient.

    Returns o, or (o, lse) with return_lse: lse is the natural logarithm of each row's sum. A row
    that sees no key has o = 0 and lse = -inf.
    Raises TypeError for a wrong dtype or kind, ValueError for other bad arguments, RuntimeError for
    what no backend offers; one sentence says what was found and what is wanted.

    Source: docs/contract.md says what is computed, src/cpu/reference.cpp says it in code.
    """
    return _forward(q, k, v, out, layout, return_lse, causal=causal, window=window,
                    mask_alignment=mask_alignment, scale=scale, softcap=softcap, sink=sink,
                    bias=bias, alibi_slopes=alibi_slopes, q_descale=q_descale, k_descale=k_descale,
                    v_descale=v_descale, precision=precision, mask=mask, mask_offset=mask_offset,
                    dropout_p=dropout_p, seed=seed, dropout_offset=dropout_offset,
                    seqused_q=seqused_q, seqused_k=seqused_k, page_table=page_table,
                    deterministic=deterministic, batch_invariant=batch_invariant, backend=backend)


def attention_varlen(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q: int | None = None,
                     max_seqlen_k: int | None = None, *, return_lse: bool = False, out=None,
                     **options: Any):
    """Exact attention of sequences of different lengths, packed one behind the other.

    q (total_q, hq, d); k (total_k, hk, d); v (total_k, hk, dv); o (total_q, hq, dv);
    lse (hq, total_q). cu_seqlens_q and cu_seqlens_k: (b + 1) int32, sequence n owns the rows
    [cu[n], cu[n + 1]). cu_seqlens_k None: k and v are dense, (b, sk, hk, d), or pages with
    page_table. max_seqlen_q, max_seqlen_k: upper bounds of the lengths; None: total_q, total_k.

    options: those of attention() but layout. bias and mask have shape (b, hq, max_seqlen_q,
    max_seqlen_k). Returns and raises as attention() does. Source: docs/contract.md, "Lengths".
    """
    if "layout" in options:
        raise TypeError("attention_varlen() has no layout: packed arrays are (total, h, d)")
    return _forward(q, k, v, out, "bshd", return_lse, cu_seqlens_q=cu_seqlens_q,
                    cu_seqlens_k=cu_seqlens_k, max_seqlen_q=max_seqlen_q,
                    max_seqlen_k=max_seqlen_k, **options)


def attention_backward(do, q, k, v, o, lse, *, dlse=None, layout: str = "bshd", **options: Any):
    """The gradients of attention() or attention_varlen(), for who does without autograd.

    do is dL/do, shaped like o; dlse is dL/dlse or None; o and lse are what the forward returned.
    options: those of the forward; after attention_varlen() also cu_seqlens_q, cu_seqlens_k,
    max_seqlen_q and max_seqlen_k by name.

    Returns a tuple (dq, dk, dv), then dsink where sink is given, then dbias where bias is given:
    each shaped like what it belongs to and of its dtype, but dsink, which has lse's.
    Raises as attention() does; float8_e4m3fn inputs have no gradient.
    Source: docs/contract.md, "Backward"; src/cpu/reference_backward.cpp says it in code.
    """
    kind, (q, do, k, v, o, lse, dlse) = _kind_of_all(
        {"q": q, "do": do, "k": k, "v": v, "o": o, "lse": lse}, dlse=dlse)
    operands, chosen = _options.attention_options(kind, q, **options)
    swap = _arrays.swapper(layout, kind, packed=operands.packed)
    implementation: Any = _call
    if kind is _arrays.torch_kind():
        from . import _torch_op as implementation
    gradients = implementation.backward(kind, swap(do), swap(q), swap(k), swap(v), swap(o), lse,
                                        dlse, operands, chosen)
    dq, dk, dv, *others = gradients
    if options.get("bias") is not None:
        others[-1] = others[-1].reshape(_arrays.as_array(options["bias"]).shape)
    return (swap(dq), swap(dk), swap(dv), *others)


def combine(o_parts, lse_parts, *, sink=None, layout: str = "bshd", out=None):
    """Merges attention over disjoint sets of keys into attention over all of them.

    o_parts: (n, b, sq, hq, dv), or packed (n, total_q, hq, dv); lse_parts: (n, b, hq, sq), or
    packed (n, hq, total_q), float32. sink: (hq), enters here and not in the parts. out: an array
    for o, one of the parts or apart from them. layout "bhsd": dense o_parts and o have the axes
    (b, h, s, d).

    Returns (o, lse) as attention() with return_lse does. A part whose lse is -inf is empty,
    whatever its o holds. Raises as attention() does. PyTorch tensors have no gradient here: one
    that needs it is refused. Source: docs/contract.md, "Merging parts"; src/combine.cpp.
    """
    kind, (parts, lses, sink, out) = _kind_of_all({"o_parts": o_parts, "lse_parts": lse_parts},
                                                  sink=sink, out=out)
    for name, x in (("o_parts", parts), ("lse_parts", lses), ("sink", sink)):
        if getattr(x, "requires_grad", False):
            raise ValueError(f"{name} requires a gradient, but combine has none: pass "
                             f"{name}.detach()")
    swap = _arrays.swapper(layout, kind, packed=len(parts.shape) == 4)
    parts = swap(parts)
    if len(parts.shape) < 4:
        raise ValueError(f"o_parts has shape {tuple(parts.shape)}, wanted 5 dims (n, b, sq, hq, "
                         "dv) or 4 dims (n, total_q, hq, dv)")
    if out is not None:
        kind.writable("out", out)
    code = kind.dtype_code(parts, "o_parts")
    o = kind.empty(parts, parts.shape[1:], code) if out is None else swap(out)
    lse = kind.empty(parts, lses.shape[1:], kind.dtype_code(lses, "lse_parts"))
    views = [None if x is None else kind.view(name, x) for name, x in
             (("o_parts", parts), ("lse_parts", lses), ("sink", sink), ("o", o), ("lse", lse))]
    if out is not None:
        inputs = {f"o_parts[{n}]": parts[n] for n in range(parts.shape[0])}
        inputs.update(lse_parts=lses, **({} if sink is None else {"sink": sink}))
        target = kind.view("out", o)
        others = {name: kind.view(name, x) for name, x in inputs.items()}
        _arrays.expect_apart("out", target, {name: view for name, view in others.items()
                                             if bytes(view) != bytes(target)})
    error = _abi.Error()
    status = _abi.lib.volley_combine(*[None if view is None else byref(view) for view in views],
                                     kind.stream(parts), byref(error))
    _abi.check(status, error)
    return (swap(o) if out is None else out), lse
