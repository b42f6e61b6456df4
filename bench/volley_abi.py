# SPDX-License-Identifier: BSD-3-Clause
"""The C ABI of libvolley.so through ctypes: as much of volley.h as forward and backward need.

Field names and their order are those of volley.h; tests/scripts/bench_abi_test.py runs a small
attention through it and would see a field that slipped.
"""
import ctypes
import json
from ctypes import POINTER, byref, c_char, c_double, c_int32, c_int64, c_uint64, c_void_p

FORWARD, BACKWARD = 0, 1
JSON = 1
CPU, CUDA = 1, 2
F32, F16, BF16 = 0x012002, 0x011002, 0x011004
BACKENDS = {"auto": 0, "reference": 1, "cpu": 2, "sm80": 3, "sm90": 4}


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int32), ("ndim", c_int32),
                ("device_type", c_int32), ("device_id", c_int32), ("shape", c_int64 * 5),
                ("stride", c_int64 * 5), ("alignment", c_int64), ("reserved", c_int64)]


class Error(ctypes.Structure):
    _fields_ = [("code", c_int32), ("reason", c_int32), ("message", c_char * 512)]


def _fields(kind, names):
    return [(name, kind) for name in names.split()]


_INPUTS = "cu_seqlens_q cu_seqlens_k seqused_q seqused_k page_table sink bias alibi_slopes mask " \
          "q_descale k_descale v_descale dropout_seed dropout_offset"
_GRADIENTS = "dout dlse dq dk dv dbias dsink"


class Problem(ctypes.Structure):
    _fields_ = (_fields(c_uint64, "size") + _fields(c_int32, "op backend") +
                _fields(POINTER(Tensor), f"q k v o lse {_INPUTS} {_GRADIENTS}") +
                _fields(c_double, "scale softcap dropout_p") +
                _fields(c_int32, "causal mask_alignment") +
                _fields(c_int64, "mask_offset window_left window_right max_seqlen_q max_seqlen_k") +
                _fields(c_int32, "q_scale_block k_scale_block v_scale_block precision accuracy "
                                 "deterministic batch_invariant accumulate_grads num_splits "
                                 "max_sms") +
                _fields(c_int64, "split_size") +
                _fields(c_int32, "num_threads score_hook mask_hook reserved"))


class Buffers(ctypes.Structure):
    _fields_ = (_fields(c_uint64, "size") +
                _fields(c_void_p, f"q k v o lse {_INPUTS} {_GRADIENTS}"))


class VolleyError(Exception):
    """What a call answered: one sentence."""


def _described(call, *arguments):
    """The JSON that a describing function of the C ABI writes."""
    size = call(*arguments, JSON, None, 0) + 1
    text = ctypes.create_string_buffer(size)
    call(*arguments, JSON, text, size)
    return json.loads(text.value)


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.volley_version.restype = ctypes.c_char_p
        self.c.volley_backend_name.restype = ctypes.c_char_p
        self.c.volley_plan_workspace_size.restype = c_uint64
        self.c.volley_plan_workspace_size.argtypes = [c_void_p]
        self.c.volley_plan_backend.argtypes = [c_void_p]
        self.c.volley_plan_destroy.argtypes = [c_void_p]
        self.c.volley_problem_init_sized.argtypes = [POINTER(Problem), c_uint64]
        self.c.volley_buffers_init_sized.argtypes = [POINTER(Buffers), c_uint64]
        self.c.volley_doctor.restype = c_uint64
        self.c.volley_doctor.argtypes = [c_int32, c_void_p, c_uint64]
        self.c.volley_plan_describe.restype = c_uint64
        self.c.volley_plan_describe.argtypes = [c_void_p, c_int32, c_void_p, c_uint64]
        self.c.volley_run.argtypes = [c_void_p, POINTER(Buffers), c_void_p, c_uint64, c_void_p,
                                      POINTER(Error)]

    def version(self):
        return self.c.volley_version().decode()

    def doctor(self):
        return _described(self.c.volley_doctor)

    def plan(self, q, k, v, o, lse=None, backend="auto", **options):
        return Plan(self, FORWARD, {"q": q, "k": k, "v": v, "o": o, "lse": lse}, backend, options)

    def plan_backward(self, tensors, backend="auto", **options):
        """tensors: by name, those of the forward with dout, dq, dk, dv."""
        return Plan(self, BACKWARD, tensors, backend, options)


class Plan:
    """A plan on the tensors that it was made with. Keep their memory alive."""

    def __init__(self, library, op, tensors, backend, options):
        self.c = library.c
        self.handle = c_void_p()
        self.error = Error()
        problem, self.buffers = Problem(), Buffers()
        self.c.volley_problem_init_sized(byref(problem), ctypes.sizeof(problem))
        self.c.volley_buffers_init_sized(byref(self.buffers), ctypes.sizeof(self.buffers))
        problem.op, problem.backend = op, BACKENDS[backend]
        for name, tensor in tensors.items():
            if tensor is not None:
                setattr(problem, name, ctypes.pointer(tensor))
                setattr(self.buffers, name, tensor.data)
        for name, value in options.items():
            getattr(problem, name)  # a misspelt option must not pass
            setattr(problem, name, value)
        self._check(self.c.volley_plan_create(byref(problem), None, byref(self.handle),
                                              byref(self.error)))
        self.workspace_size = self.c.volley_plan_workspace_size(self.handle)
        self.backend = self.c.volley_backend_name(
            self.c.volley_plan_backend(self.handle)).decode()

    def run(self, workspace=None, stream=None):
        self._check(self.c.volley_run(self.handle, byref(self.buffers), workspace,
                                      self.workspace_size, stream, byref(self.error)))

    def describe(self):
        return _described(self.c.volley_plan_describe, self.handle)

    def _check(self, status):
        if status != 0:
            raise VolleyError(self.error.message.decode())

    def __del__(self):
        if self.handle:
            self.c.volley_plan_destroy(self.handle)


def tensor(data, dtype, shape, stride, device_type=CPU, device_id=0):
    """A view; shape and stride as sequences, stride in elements."""
    view = Tensor(data=data, dtype=dtype, ndim=len(shape), device_type=device_type,
                  device_id=device_id)
    view.shape[:len(shape)] = list(shape)
    view.stride[:len(stride)] = list(stride)
    return view
