# SPDX-License-Identifier: BSD-3-Clause
"""The C ABI (include/volley/volley.h) through ctypes: its structs, calls and codes.

Nothing here knows of NumPy or PyTorch. ctypes lets go of the interpreter's lock during a call, so
that threads compute side by side. Field names and their order are those of volley.h;
tests/python/test_abi.py sees one that slipped. Read _call.py next.
"""
from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_char, c_char_p, c_double, c_int32, c_int64, c_uint64, c_void_p
from pathlib import Path

ABI_VERSION = 1

FORWARD, BACKWARD = 0, 1
CPU, CUDA = 1, 2
TEXT, JSON = 0, 1
I32, I64, BOOL = 0x012000, 0x014000, 0x010806
F16, F32, F64, BF16 = 0x011002, 0x012002, 0x014002, 0x011004
E4M3, E8M0 = 0x01080A, 0x01080E

BACKENDS = {"auto": 0, "reference": 1, "cpu": 2, "sm80": 3, "sm90": 4}
ALIGNMENTS = {"bottom_right": 0, "top_left": 1, "explicit": 2}
PRECISIONS = {"default": 0, "fp8": 1, "mixed": 2, "int8_qk": 3}

_INVALID_ARGUMENT = 1
_REASON_DTYPE = 3


class Tensor(ctypes.Structure):
    """volley_tensor: a strided view of memory, strides in elements."""
    _fields_ = [("data", c_void_p), ("dtype", c_int32), ("ndim", c_int32),
                ("device_type", c_int32), ("device_id", c_int32), ("shape", c_int64 * 5),
                ("stride", c_int64 * 5), ("alignment", c_int64), ("reserved", c_int64)]


class Error(ctypes.Structure):
    _fields_ = [("code", c_int32), ("reason", c_int32), ("message", c_char * 512)]


# The tensors of a problem beside q, k, v, o, lse and the gradients.
OPERANDS = ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "page_table", "sink", "bias",
            "alibi_slopes", "mask", "q_descale", "k_descale", "v_descale", "dropout_seed",
            "dropout_offset")
TENSORS = ("q", "k", "v", "o", "lse", *OPERANDS,
           "dout", "dlse", "dq", "dk", "dv", "dbias", "dsink")


def _fields(kind, names):
    return [(name, kind) for name in names.split()]


class Problem(ctypes.Structure):
    _fields_ = (_fields(c_uint64, "size") + _fields(c_int32, "op backend") +
                [(name, POINTER(Tensor)) for name in TENSORS] +
                _fields(c_double, "scale softcap dropout_p") +
                _fields(c_int32, "causal mask_alignment") +
                _fields(c_int64, "mask_offset window_left window_right max_seqlen_q max_seqlen_k") +
                _fields(c_int32, "q_scale_block k_scale_block v_scale_block precision accuracy "
                                 "deterministic batch_invariant accumulate_grads num_splits "
                                 "max_sms") +
                _fields(c_int64, "split_size") +
                _fields(c_int32, "num_threads score_hook mask_hook reserved"))


class Buffers(ctypes.Structure):
    _fields_ = _fields(c_uint64, "size") + [(name, c_void_p) for name in TENSORS]


_SIGNATURES = {
    "volley_abi_version": (c_int32,),
    "volley_version": (c_char_p,),
    "volley_status_name": (c_char_p, c_int32),
    "volley_reason_name": (c_char_p, c_int32),
    "volley_backend_name": (c_char_p, c_int32),
    "volley_dtype_name": (c_char_p, c_int32),
    "volley_problem_init_sized": (None, POINTER(Problem), c_uint64),
    "volley_buffers_from_problem_sized": (c_int32, POINTER(Problem), POINTER(Buffers), c_uint64,
                                          POINTER(Error)),
    "volley_plan_create": (c_int32, POINTER(Problem), c_char_p, POINTER(c_void_p),
                           POINTER(Error)),
    "volley_plan_destroy": (None, c_void_p),
    "volley_plan_backend": (c_int32, c_void_p),
    "volley_plan_reason": (c_int32, c_void_p),
    "volley_plan_workspace_size": (c_uint64, c_void_p),
    "volley_plan_equal": (c_int32, c_void_p, c_void_p),
    "volley_plan_describe": (c_uint64, c_void_p, c_int32, c_char_p, c_uint64),
    "volley_run": (c_int32, c_void_p, POINTER(Buffers), c_void_p, c_uint64, c_void_p,
                   POINTER(Error)),
    "volley_combine": (c_int32, *[POINTER(Tensor)] * 5, c_void_p, POINTER(Error)),
    "volley_doctor": (c_uint64, c_int32, c_char_p, c_uint64),
}


def _load() -> ctypes.CDLL:
    """The library of this package, or the one that LIBVOLLEY names."""
    path = os.environ.get("LIBVOLLEY") or Path(__file__).with_name("libvolley.so")
    library = ctypes.CDLL(str(path))
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    if library.volley_abi_version() != ABI_VERSION:
        raise ImportError(f"{path} has ABI {library.volley_abi_version()}, this package of Volley "
                          f"speaks ABI {ABI_VERSION}")
    return library


lib = _load()


def check(status: int, error: Error) -> None:
    """Raises the library's sentence: TypeError for a wrong dtype, ValueError for any other bad
    input, RuntimeError for what is right but not offered, not built, not here, or failed. The
    exception has the names of status and reason as `code` and `reason`."""
    if status == 0:
        return
    kind: type[Exception] = RuntimeError
    if status == _INVALID_ARGUMENT:
        kind = TypeError if error.reason == _REASON_DTYPE else ValueError
    exception = kind(error.message.decode(errors="replace"))
    exception.code = lib.volley_status_name(status).decode()  # type: ignore[attr-defined]
    exception.reason = lib.volley_reason_name(error.reason).decode()  # type: ignore[attr-defined]
    raise exception


def text_of(write) -> str:
    """The whole text of a call that writes (buffer, capacity) and returns the full length."""
    size = write(None, 0) + 1
    buffer = ctypes.create_string_buffer(size)
    write(buffer, size)
    return buffer.value.decode()


def tensor(data: int | None, dtype: int, shape, stride, device_type: int = CPU,
           device_id: int = 0) -> Tensor:
    """A view; strides in elements. More than 5 axes make one that every call refuses."""
    if len(shape) > 5:
        return Tensor(data, dtype, -1, device_type, device_id)
    return Tensor(data, dtype, len(shape), device_type, device_id, tuple(shape), tuple(stride))


def contiguous(shape) -> tuple[int, ...]:
    """The strides of a tensor without gaps, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))
