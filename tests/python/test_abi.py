# SPDX-License-Identifier: BSD-3-Clause
"""volley/_abi.py says what include/volley/volley.h says: structs, codes, calls."""
import ctypes
import re
from pathlib import Path

import pytest

import volley
from volley import _abi, _call, _options

HEADER = (Path(__file__).parents[2] / "include/volley/volley.h").read_text()
HEADER = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)


def fields_of(struct):
    body = re.search(rf"typedef struct {struct} {{(.*?)}} {struct};", HEADER, re.S).group(1)
    for declaration in body.split(";"):
        names = declaration.split()
        if names:
            first = re.sub(r"^(const )?\w+(\*)? ", "", " ".join(names))
            yield from (re.sub(r"[\s*]|\[.*\]", "", name) for name in first.split(","))


@pytest.mark.parametrize("name,struct", [
    ("volley_tensor", _abi.Tensor), ("volley_error", _abi.Error),
    ("volley_problem", _abi.Problem), ("volley_buffers", _abi.Buffers)])
def test_struct_fields(name, struct):
    assert [field for field, _ in struct._fields_] == list(fields_of(name))


def test_codes():
    values = {name: int(value, 0) for name, value in
              re.findall(r"VOLLEY_(\w+) = (\w+)", HEADER)}
    for name in ("I32", "I64", "BOOL", "F16", "F32", "F64", "BF16", "E4M3", "E8M0"):
        assert getattr(_abi, name) == values[name]
    for prefix, table in (("BACKEND", _abi.BACKENDS), ("ALIGN", _abi.ALIGNMENTS),
                          ("PRECISION", _abi.PRECISIONS)):
        found = {name[len(prefix) + 1:].lower(): value for name, value in values.items()
                 if name.startswith(prefix + "_")}
        assert found == table
    assert (values["OP_FORWARD"], values["OP_BACKWARD"]) == (_abi.FORWARD, _abi.BACKWARD)
    assert (values["DEVICE_CPU"], values["DEVICE_CUDA"]) == (_abi.CPU, _abi.CUDA)
    assert (values["FORMAT_TEXT"], values["FORMAT_JSON"]) == (_abi.TEXT, _abi.JSON)


def test_every_call_that_is_declared_here_is_exported():
    exported = set(re.findall(r"VOLLEY_API [^(]*?\b(volley_\w+)\(", HEADER))
    assert set(_abi._SIGNATURES) <= exported


# A wrong value is refused under the name of its field: the field has its place.
@pytest.mark.parametrize("field,value", [
    ("dropout_p", 2.0), ("mask_alignment", 9), ("window_right", -3), ("max_seqlen_k", -1),
    ("k_scale_block", 0), ("accuracy", 9), ("num_splits", -1), ("max_sms", -1), ("split_size", -1),
    ("num_threads", -1), ("mask_hook", 1)])
def test_fields_have_their_places(field, value):
    tensor = _abi.tensor(None, _abi.F32, (1, 2, 1, 8), (16, 8, 8, 1))
    views = dict.fromkeys("qkvo", tensor)
    options = _options.attention_options(None, None)[1]
    problem = _call.problem_of(_abi.FORWARD, views, options)
    _call.PlanHandle(problem)
    setattr(problem, field, value)
    with pytest.raises((ValueError, RuntimeError), match=field):
        _call.PlanHandle(problem)


def test_too_many_axes():
    view = _abi.tensor(None, _abi.F32, (1,) * 7, (1,) * 7)
    assert view.ndim == -1 and ctypes.sizeof(view) == 120


def test_version():
    assert volley.__version__ == re.search(
        r"project\(volley VERSION ([0-9.]+)",
        (Path(__file__).parents[2] / "CMakeLists.txt").read_text()).group(1)
