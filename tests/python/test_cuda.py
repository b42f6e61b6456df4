# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch tensors on a GPU: streams, graphs, views. Skipped where there is no Hopper."""
import pytest
import torch
from truth import band, close, qkv, sdpa

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
