# SPDX-License-Identifier: BSD-3-Clause
"""plan() and doctor(): what would run, here and on machines that are not here."""
import numpy as np
import pytest
import torch

import volley
from volley import Spec

Q, K = Spec((2, 4096, 32, 128)), Spec((2, 4096, 8, 128))


def test_the_plan_of_arrays_is_that_of_their_specs():
    q, k = np.zeros((1, 8, 4, 16), np.float32), np.zeros((1, 8, 2, 16), np.float32)
    here = volley.plan(q, k, k, causal=True)
    assert here.backend == "cpu" and here.reason == "none"
    assert here == volley.plan(torch.from_numpy(q), torch.from_numpy(k), torch.from_numpy(k),
                               causal=True)
    assert here != volley.plan(q, k, k)
    meta = torch.empty(q.shape, device="meta")
    assert volley.plan(meta, meta, meta).backend == "cpu"


def test_a_machine_that_is_not_here():
    plan = volley.plan(Q, K, K, device="h200", causal=True)
    assert plan.backend == "sm90" and "132 blocks" in str(plan) and repr(plan) == \
        "<volley.Plan on sm90>"
    assert plan.json()["backend"] == "sm90"
    assert volley.plan(Q, K, K, device=torch.device("cpu")).backend == "cpu"


def test_reasons():
    odd = Spec(Q.shape, "bfloat16", strides=(4096 * 32 * 129, 32 * 129, 129, 1))
    with pytest.raises(RuntimeError, match="stride of q is 258 bytes, TMA needs") as caught:
        volley.plan(odd, K, K, device="h200", backend="sm90")
    assert caught.value.reason == "stride"


def test_layout():
    swapped = [Spec((x.shape[0], x.shape[2], x.shape[1], x.shape[3]), "bfloat16",
                    (x.strides[0], x.strides[2], x.strides[1], x.strides[3])) for x in (Q, K, K)]
    assert volley.plan(*swapped, layout="bhsd") == volley.plan(Q, K, K)


def test_backward():
    sink = Spec((32,), "float32")
    bias = Spec((4096, 4096), "float32")
    plan = volley.plan(Q, K, K, op="backward", sink=sink, bias=bias)
    assert "backward" in str(plan)
    with pytest.raises(ValueError, match="op is 'sideways', wanted is"):
        volley.plan(Q, K, K, op="sideways")


def test_packed():
    lengths = Spec((9,), "int32")
    plan = volley.plan(Spec((1000, 4, 64)), Spec((1000, 4, 64)), Spec((1000, 4, 64)),
                       cu_seqlens_q=lengths, cu_seqlens_k=lengths, max_seqlen_q=500)
    assert plan.json()["problem"] == volley.plan(
        Spec((1000, 4, 64)), Spec((1000, 4, 64)), Spec((1000, 4, 64)), cu_seqlens_q=lengths,
        cu_seqlens_k=lengths, max_seqlen_q=500, lse=True).json()["problem"]


def test_spec_refuses():
    with pytest.raises(TypeError, match="dtype is 'int4', wanted one of float32"):
        Spec((1, 2), "int4")
    with pytest.raises(TypeError, match=r"dtype is \['int4'\], wanted one of float32"):
        Spec((1, 2), ["int4"])
    with pytest.raises(ValueError, match="strides has 1 entries, shape has 2"):
        Spec((1, 2), strides=(1,))
    with pytest.raises(TypeError, match=r"shape is \(1.5, 2\), wanted are whole numbers"):
        Spec((1.5, 2))
    with pytest.raises(ValueError, match="shape is .*, wanted are numbers of 64 bits"):
        Spec((2**64 + 1, 2))  # as 64 bits it would be 1
    with pytest.raises(ValueError, match="strides is .*, wanted are numbers of 64 bits"):
        Spec((1, 2**40, 2**40, 8))


def test_layout_keeps_every_axis():
    five = Spec((1, 2, 4, 8, 3))
    with pytest.raises(ValueError, match=r"q has shape \(1, 2, 8, 4, 3\), wanted 4 dims"):
        volley.plan(five, five, five, layout="bhsd")


def test_doctor():
    said = volley.doctor()
    assert said.startswith(f"volley       {volley.__version__}") and "reference" in said
