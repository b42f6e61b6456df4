# SPDX-License-Identifier: BSD-3-Clause
"""Volley: exact attention for NVIDIA Hopper and for CPUs, on NumPy arrays and PyTorch tensors.

    import volley
    o = volley.attention(q, k, v, causal=True)   # (b, s, h, d); k and v may have fewer heads

attention, attention_varlen and attention_backward compute; plan says what would run and why;
combine merges parts; doctor says what this machine has. docs/python.md is the guide,
docs/contract.md what is computed. Needs NumPy only; PyTorch and ml_dtypes are used where their
arrays come in.
"""
from ._abi import lib as _lib
from ._attention import attention, attention_backward, attention_varlen, combine
from ._plan import Plan, doctor, plan
from ._spec import Spec

__all__ = ["attention", "attention_varlen", "attention_backward", "combine", "plan", "Plan", "Spec",
           "doctor"]
__version__ = _lib.volley_version().decode()
