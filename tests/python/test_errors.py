# SPDX-License-Identifier: BSD-3-Clause
"""Every refusal is a TypeError, ValueError or RuntimeError with one sentence on what was wrong."""
import numpy as np
import pytest
import torch

import volley

Q = np.ones((1, 4, 2, 8), np.float32)
K = np.ones((1, 6, 2, 8), np.float32)
TORCH = torch.ones(1, 4, 2, 8)

CASES = [
    (TypeError, "q is a list, wanted is a NumPy array or a PyTorch tensor", dict(q=[1.0])),
    (TypeError, "k is None, wanted is a NumPy array or a PyTorch tensor", dict(k=None, v=K)),
    (TypeError, "v is None, wanted is a NumPy array or a PyTorch tensor", dict(v=None)),
    (TypeError, "q is a masked array, whose mask would be ignored", dict(q=np.ma.array(Q))),
    (TypeError, "k is a PyTorch tensor, but q is a NumPy array: give arrays of one kind",
     dict(k=TORCH)),
    (TypeError, "bias is a PyTorch tensor, but q is a NumPy array", dict(bias=TORCH)),
    (TypeError, "q is a volley.Spec, which has no memory", dict(q=volley.Spec((1, 4, 2, 8)))),
    (TypeError, "q has dtype int8, wanted is one of float32, ", dict(q=Q.astype(np.int8))),
    (TypeError, "k has dtype >f4, wanted", dict(k=K.astype(">f4"))),
    (TypeError, "k is fp16, wanted fp32", dict(k=K.astype(np.float16))),
    (TypeError, "seqused_k is i64, wanted i32", dict(seqused_k=np.array([6]))),
    (TypeError, "mask is fp32, wanted bool", dict(mask=np.ones((4, 6), np.float32))),
    (TypeError, "max_seqlen_k is a float, wanted is a whole number",
     dict(cu_seqlens_k=None, max_seqlen_k=1.5)),
    (TypeError, "scale is a list, wanted is a number", dict(scale=[])),
    (TypeError, "scale is a str, wanted is a number", dict(scale="3")),
    (TypeError, "seed is a float, wanted is a whole number", dict(dropout_p=0.5, seed=1.5)),
    (TypeError, "o is i32, wanted fp32 or fp64", dict(out=np.zeros(Q.shape, np.int32))),
    (TypeError, "casual", dict(casual=True)),
    (ValueError, r"q has shape \(4, 2, 8\), wanted 4 dims \(b, sq, hq, d\)", dict(q=Q[0])),
    (ValueError, r"v has shape \(1, 5, 2, 8\), wanted \(b, sk, hk, channels\)", dict(v=K[:, 1:])),
    (ValueError, "hq", dict(k=np.ones((1, 6, 3, 8), np.float32))),
    (ValueError, "sink has shape", dict(sink=np.zeros(3, np.float32))),
    (ValueError, r"bias has shape .*, wanted \(b, hq, sq, sk\) = \(1, 2, 4, 6\)",
     dict(bias=np.zeros((4, 5), np.float32))),
    (ValueError, "k has strides of .* bytes, wanted multiples of its elements' 4",
     dict(k=np.zeros(K.shape, "f4,i1")["f0"])),
    (ValueError, "window is 3, wanted is", dict(window=3)),
    (ValueError, "window_left is -2", dict(window=(-2, 0))),
    (ValueError, "layout is 'sbhd', wanted is 'bshd' or 'bhsd'", dict(layout="sbhd")),
    (ValueError, "backend is 'gpu', wanted is one of 'auto', 'reference'", dict(backend="gpu")),
    (ValueError, r"backend is \['cpu'\], wanted is one of", dict(backend=["cpu"])),
    (ValueError, "scale is 10+, which no float can hold", dict(scale=10**400)),
    (ValueError, "mask_alignment is 'left', wanted is one of", dict(mask_alignment="left")),
    (ValueError, "which needs a mask_offset", dict(mask_alignment="explicit")),
    (ValueError, "excludes mask_alignment 'top_left'",
     dict(mask_alignment="top_left", mask_offset=1)),
    (ValueError, "mask_offset is .*, wanted is a number of 64 bits", dict(mask_offset=2**64)),
    (ValueError, "precision is 'int4'", dict(precision="int4")),
    (ValueError, "softcap is -1", dict(softcap=-1)),
    (ValueError, "dropout_p is 1", dict(dropout_p=1.0, seed=0)),
    (ValueError, "dropout_p is 0.5, but seed is None", dict(dropout_p=0.5)),
    (ValueError, r"seqused_k\[0\] is 7", dict(seqused_k=np.array([7], np.int32))),
    (ValueError, "seqused_k", dict(page_table=np.zeros((1, 1), np.int32))),
    (ValueError, "out is a read-only array", dict(out=np.broadcast_to(Q, Q.shape))),
    (ValueError, "o has shape", dict(out=Q[:, :3].copy())),
    (ValueError, "o .*share memory",
     dict(out=np.lib.stride_tricks.as_strided(Q.copy(), Q.shape, (256, 0, 32, 4)))),
    (RuntimeError, "sm80 works on CUDA memory", dict(backend="sm80")),
    (RuntimeError, "cpu forward takes .*, not fp64",
     dict(q=Q.astype(np.float64), k=K.astype(np.float64), backend="cpu")),
]


@pytest.mark.parametrize("kind,sentence,change", CASES, ids=[case[1][:40] for case in CASES])
def test_sentence(kind, sentence, change):
    given = {"q": Q, "k": K, **change}
    given.setdefault("v", given["k"])
    call = volley.attention
    if "cu_seqlens_k" in given:
        call = volley.attention_varlen
        given["cu_seqlens_q"] = np.array([0, 4], np.int32)
    with pytest.raises(kind, match=sentence) as caught:
        call(**given)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)


def test_codes_and_reasons():
    with pytest.raises(RuntimeError) as caught:
        volley.attention(Q, K, K, backend="sm80")
    assert (caught.value.code, caught.value.reason) == ("not_offered", "device")
    with pytest.raises(ValueError) as caught:
        volley.attention(Q, K, K, softcap=-1)
    assert (caught.value.code, caught.value.reason) == ("invalid_argument", "range")


def test_pytorch_gets_the_same_sentences():
    k = torch.ones(1, 6, 2, 8)
    with pytest.raises(TypeError, match="k is fp16, wanted fp32"):
        volley.attention(TORCH, k.half(), k)
    with pytest.raises(ValueError, match="softcap is -1"):
        volley.attention(TORCH, k, k, softcap=-1)
    with pytest.raises(TypeError, match="q is a torch.sparse_coo tensor on cpu, wanted is"):
        volley.attention(TORCH.to_sparse(), k, k)
    with pytest.raises(TypeError, match="q has dtype torch.int16, wanted"):
        volley.attention(TORCH.short(), k, k)


def test_a_failed_call_leaves_the_output_and_the_next_call():
    out = np.full(Q.shape, np.nan, np.float32)
    with pytest.raises(ValueError):
        volley.attention(Q, K, K, seqused_k=np.array([7], np.int32), out=out)
    assert np.isnan(out).all()
    assert (volley.attention(Q, K, K, out=out) == 1).all()


@pytest.mark.parametrize("name", "qkv")
@pytest.mark.parametrize("torch_too", [False, True])
def test_out_is_apart_from_the_inputs(name, torch_too):
    arrays = {x: np.ones((2, 9, 2, 8), np.float32) for x in "qkv"}
    if torch_too:
        arrays = {x: torch.from_numpy(array) for x, array in arrays.items()}
    with pytest.raises(ValueError, match=f"out shares memory with {name}, wanted is memory"):
        volley.attention(**arrays, out=arrays[name])
    rows = arrays[name][:, 1:]
    shifted = {x: array[:, :8] for x, array in arrays.items()}
    with pytest.raises(ValueError, match=f"out shares memory with {name}, wanted is memory"):
        volley.attention(**shifted, out=rows)


def test_out_may_lie_between_the_inputs():
    memory = np.random.default_rng(0).standard_normal((2, 9, 4, 2, 8), np.float32)
    q, k, v, out = [memory[:, :, n] for n in range(4)]
    wanted = volley.attention(q, k, v)
    assert (volley.attention(q, k, v, out=out) == wanted).all()


def test_varlen_has_one_layout():
    cu = np.array([0, 4], np.int32)
    with pytest.raises(TypeError, match="has no layout: packed arrays are"):
        volley.attention_varlen(Q[0], Q[0], Q[0], cu, cu, layout="bhsd")
    o, lse = volley.attention_varlen(Q[0], Q[0], Q[0], cu, cu, return_lse=True)
    with pytest.raises(ValueError, match="layout is 'bhsd', but packed arrays are"):
        volley.attention_backward(o, Q[0], Q[0], Q[0], o, lse, cu_seqlens_q=cu, cu_seqlens_k=cu,
                                  layout="bhsd")
    with pytest.raises(ValueError, match="layout is 'bhsd', but packed arrays are"):
        volley.combine(o[None], lse[None], layout="bhsd")


def test_pytorch_tensors_that_are_no_plain_memory():
    k = torch.ones(1, 6, 2, 8)
    for layout in (torch.strided, torch.jagged):
        nested = torch.nested.nested_tensor([TORCH[0], TORCH[0]], layout=layout)
        with pytest.raises(TypeError, match="q is a nested tensor, wanted is a strided one"):
            volley.attention(nested, k, k)
    negated = torch.complex(TORCH, TORCH).conj().imag  # reads -1 where its memory has 1
    assert (volley.attention(TORCH, negated, negated) == -1).all()
    with pytest.raises(ValueError, match="out is a view that negates what its memory holds"):
        volley.attention(TORCH, k, k, out=negated)
    with pytest.raises(ValueError, match="o_parts is a view that negates what its memory holds"):
        volley.combine(negated[None], torch.zeros(1, 1, 2, 4))


def test_memory_and_no_memory_do_not_mix():
    k = torch.ones(1, 6, 2, 8)
    meta = k.to("meta")
    for arguments, given in (((TORCH, k, meta), {}), ((TORCH.to("meta"), k, k), {}),
                             ((TORCH, k, k), {"bias": torch.zeros(4, 6, device="meta")}),
                             ((TORCH, k, k), {"out": TORCH.to("meta")})):
        with pytest.raises(ValueError, match="is on device .*, q is on"):
            volley.attention(*arguments, **given)
    o, lse = volley.attention(TORCH, k, k, return_lse=True)
    with pytest.raises(ValueError, match="do is on device meta, q is on cpu"):
        volley.attention_backward(o.to("meta"), TORCH, k, k, o, lse)


def test_backward_needs_all_of_them():
    o, lse = volley.attention(Q, K, K, return_lse=True)
    names = ("do", "q", "k", "v", "o", "lse")
    for name in names:
        given = dict(zip(names, (o, Q, K, K, o, lse)))
        given[name] = None
        with pytest.raises(TypeError, match=f"{name} is None, wanted is a NumPy array"):
            volley.attention_backward(**given)


def test_backward_refuses():
    o, lse = volley.attention(Q, K, K, return_lse=True)
    with pytest.raises(ValueError, match="dout has shape"):
        volley.attention_backward(o[:, :3], Q, K, K, o, lse)
    with pytest.raises(TypeError, match="lse is a PyTorch tensor, but q is a NumPy array"):
        volley.attention_backward(o, Q, K, K, o, torch.from_numpy(lse))


def test_combine_refuses():
    with pytest.raises(ValueError, match="o_parts has shape"):
        volley.combine(Q[0], np.zeros((1, 2, 4), np.float32))
    with pytest.raises(ValueError, match="lse_parts has shape"):
        volley.combine(Q[None], np.zeros((1, 1, 2, 5), np.float32))
    with pytest.raises(TypeError, match="o_parts is a list, wanted is a NumPy array"):
        volley.combine([Q], np.zeros((1, 1, 2, 4), np.float32))
    with pytest.raises(TypeError, match="lse_parts is None, wanted is a NumPy array"):
        volley.combine(Q[None], None)
    with pytest.raises(TypeError, match="lse_parts has dtype int8, wanted is one of"):
        volley.combine(Q[None], np.zeros((1, 1, 2, 4), np.int8))


def test_combine_may_write_into_a_part_but_not_across_parts():
    parts = np.random.default_rng(0).standard_normal((3, 1, 4, 2, 8), np.float32)
    lse = np.zeros((3, 1, 2, 4), np.float32)
    wanted = volley.combine(parts, lse)[0]
    across = parts.reshape(-1)[32:96].reshape(Q.shape)
    with pytest.raises(ValueError, match=r"out shares memory with o_parts\[0\], wanted is"):
        volley.combine(parts, lse, out=across)
    assert (volley.combine(parts, lse, out=parts[1])[0] == wanted).all()
