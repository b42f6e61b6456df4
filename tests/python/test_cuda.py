# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch tensors on a GPU: streams, graphs, views, gradients. Skipped where there is no Hopper."""
import pytest
import torch
from truth import band, close, leaves, qkv, sdpa, spelled_out, tensors

import volley

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0),
    reason="no GPU of compute capability 9.0 here")


def inputs(**sizes):
    given = qkv(sq=200, sk=300, hq=8, hk=2, d=128, dtype=torch.bfloat16, **sizes)
    return given, [x.cuda() for x in given]


def test_values():
    given, (q, k, v) = inputs()
    assert volley.plan(q, k, v, causal=True).backend == "sm90"
    o, lse = volley.attention(q, k, v, causal=True, return_lse=True)
    assert o.device == q.device and lse.device == q.device
    close(o.cpu(), sdpa(*given, band(200, 300, True)))


def test_views_and_out():
    given, (q, k, v) = inputs()
    fused = torch.stack([k, v], 1)
    out = torch.full((2, 8, 200, 128), torch.nan, dtype=q.dtype, device=q.device).transpose(1, 2)
    assert volley.attention(q, *fused.unbind(1), out=out) is out
    close(out.cpu(), sdpa(*given))


def test_work_goes_to_the_current_stream():
    given, (q, k, v) = inputs()
    wanted = volley.attention(q, k, v)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late = q.clone()
        o = volley.attention(late, k, v)
    assert not stream.query()  # the call only enqueues
    stream.synchronize()
    assert torch.equal(o, wanted)


def test_graph():
    given, (q, k, v) = inputs()
    wanted = volley.attention(q, k, v)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = volley.attention(q, k, v)
    o.fill_(torch.nan)
    graph.replay()
    assert torch.equal(o, wanted)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("d", [64, 33])
@pytest.mark.parametrize("options", [
    {}, {"causal": True}, {"window": (50, 20)}, {"softcap": 1.5, "scale": 0.4}])
def test_gradients(dtype, d, options):
    """Of the Hopper forward where it takes the call, with the V2 backward."""
    given = qkv(sq=200, sk=300, hq=8, hk=2, d=d, dtype=dtype)
    do, dlse = tensors(given[0].shape, (2, 8, 200), dtype=dtype, seed=3)
    q, k, v = leaves(*[x.cuda() for x in given])
    assert volley.plan(q, k, v, **options).backend == ("sm90" if d == 64 else "sm80")
    assert volley.plan(q, k, v, op="backward", **options).backend == "sm80"
    o, lse = volley.attention(q, k, v, return_lse=True, **options)
    found = torch.autograd.grad((o, lse), (q, k, v), (do.cuda(), dlse.cuda().float()))
    seen = band(200, 300, options.get("causal"), options.get("window", (-1, -1)))
    others = {name: x for name, x in options.items() if name in ("softcap", "scale")}
    q, k, v = leaves(*given)
    wanted = torch.autograd.grad(spelled_out(q, k, v, seen, **others), (q, k, v),
                                 (do.double(), dlse.double()))
    for x, y in zip(found, wanted):
        assert x.dtype == dtype and x.is_cuda
        close(x.cpu(), y, factor=4)


def test_gradients_of_a_forced_forward():
    q, k, v = leaves(*inputs()[1])
    results = []
    for backend in ("sm90", None):
        o = volley.attention(q, k, v, causal=True, backend=backend)
        results.append((o, *torch.autograd.grad(o.float().square().sum(), (q, k, v))))
    for x, y in zip(*results):
        close(x, y, factor=4)  # dq is summed in no fixed order


@pytest.mark.parametrize("options", [
    {"bias": (8, 200, 300), "sink": (8,)}, {"bias": (1, 1, 300)}, {"alibi_slopes": (8,)},
    {"dropout_p": 0.25, "seed": 7}, {"causal": True, "deterministic": True}])
def test_gpu_and_cpu_agree(options):
    """Also on what dropout drops, and with layouts that are read in place or copied first."""
    def sample(name, x):
        dtype = torch.float32 if name == "alibi_slopes" else torch.bfloat16
        return tensors(x, dtype=dtype, seed=4)[0].abs() if isinstance(x, tuple) else x

    given = qkv(sq=200, sk=300, hq=8, hk=2, d=40, dtype=torch.bfloat16)
    options = {name: sample(name, x) for name, x in options.items()}
    do = tensors(given[0].shape, dtype=torch.bfloat16, seed=3)[0]
    results = []
    for move in (lambda x: x, lambda x: x.cuda(),
                 lambda x: x.cuda().transpose(1, -1).contiguous().transpose(1, -1)):
        q, k, v = leaves(*map(move, given))
        others = {name: x.to(q.device) if torch.is_tensor(x) else x for name, x in options.items()}
        variables = [q, k, v]
        for name in ("sink", "bias"):
            if name in others:
                others[name] = others[name].requires_grad_()
                variables.append(others[name])
        o = volley.attention(q, k, v, **others)
        results.append([x.cpu() for x in (o, *torch.autograd.grad(o, variables, do.to(q.device)))])
    cpu, gpu, strided = results
    for result in (gpu, strided):
        for x, y in zip(result, cpu, strict=True):
            close(x, y, factor=16)  # dsink and dbias sum many rows


def test_packed_sequences():
    q, k, v = tensors((300, 8, 64), (410, 2, 64), (410, 2, 64), dtype=torch.bfloat16)
    cu_q, cu_k = (torch.tensor(x, dtype=torch.int32)
                  for x in ([0, 100, 100, 300], [0, 150, 160, 410]))
    do, = tensors(q.shape, dtype=torch.bfloat16, seed=3)
    results = []
    for device in ("cpu", "cuda"):
        variables = leaves(*[x.to(device) for x in (q, k, v)])
        o = volley.attention_varlen(*variables, cu_q.to(device), cu_k.to(device), 200, 250,
                                    causal=True)
        results.append([x.cpu() for x in (o, *torch.autograd.grad(o, variables, do.to(device)))])
    for x, y in zip(*results, strict=True):
        close(x, y, factor=4)


def test_compiled_training_step():
    given = qkv(sq=200, sk=300, hq=8, hk=2, d=64, dtype=torch.bfloat16)
    q, k, v = leaves(*[x.cuda() for x in given])

    def loss(q, k, v):
        return volley.attention(q, k, v, causal=True).float().square().sum()

    wanted = torch.autograd.grad(loss(q, k, v), (q, k, v))
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    for x, y in zip(torch.autograd.grad(compiled(q, k, v), (q, k, v)), wanted):
        close(x, y, factor=4)


def test_devices_do_not_mix():
    given, (q, k, v) = inputs()
    with pytest.raises(ValueError, match="k is on device"):
        volley.attention(q, given[1], v)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU only")
def test_a_device_that_is_not_current():
    given, (q, k, v) = inputs()
    wanted = volley.attention(q, k, v)
    o = volley.attention(*[x.to("cuda:1") for x in (q, k, v)])
    assert o.device.index == 1 and torch.cuda.current_device() == 0
    assert torch.equal(o.cpu(), wanted.cpu())
