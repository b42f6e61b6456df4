# SPDX-License-Identifier: BSD-3-Clause
"""What bench/compare.py takes for right is what autograd says, and the contestants that it makes of
Volley are right: on the CPU here, for the bench itself needs a GPU."""
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
import volley

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import compare  # noqa: E402
import contestants  # noqa: E402
import rows  # noqa: E402
import volley_abi  # noqa: E402
from operations import OPERATIONS  # noqa: E402

MAKERS = {"fwd": contestants.volley, "bwd": contestants.volley_backward}


@pytest.fixture
def library(monkeypatch):
    """Volley through the bench's own binding, with nothing of CUDA left in the way."""
    monkeypatch.setattr(contestants, "view", lambda x: volley_abi.tensor(
        x.data_ptr(), contestants.CODES[x.dtype], x.shape, x.stride()))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=None))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(compare.protocol, "capture", lambda launch, launches: None)
    path = Path(volley.__file__).with_name("libvolley.so")
    return volley_abi.Library(os.environ.get("LIBVOLLEY") or str(path))


@pytest.mark.parametrize("causal", [False, True])
def test_exact_results_are_autograds(causal):
    torch.manual_seed(1)
    q, k, v, dout = (torch.randn(33, 16, dtype=torch.float64) for _ in range(4))
    for x in (q, k, v):
        x.requires_grad_()
    o = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]
    gradients = torch.autograd.grad(o, (q, k, v), dout)
    with torch.no_grad():
        torch.testing.assert_close(OPERATIONS["fwd"].exact((q, k, v), causal), (o,))
        torch.testing.assert_close(OPERATIONS["bwd"].exact((q, k, v, dout), causal), gradients)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("op", list(OPERATIONS))
def test_a_contestant_is_ready_when_it_is_right(library, op, causal):
    torch.manual_seed(2)
    operation = OPERATIONS[op]
    tensors = [torch.randn(2, 128, 3, 64).bfloat16() for _ in range(operation.inputs)]
    checks = {(batch, head): operation.exact([x[batch, :, head].double() for x in tensors], causal)
              for batch, head in ((0, 0), (1, 2))}

    def sentence(make):
        return compare.ready(make, [*tensors, causal], checks, operation.allowed["bf16"])[1]

    def of_cpu(*inputs):
        return MAKERS[op](library, "cpu", *inputs)

    def wrong(*inputs):
        launch = of_cpu(*inputs)
        return lambda: tuple(1.2 * x for x in launch())

    assert sentence(of_cpu) is None
    for layout, change in contestants.LAYOUTS.items():
        assert sentence(change(of_cpu)) is None, layout
    assert "allowed is" in sentence(wrong)


def test_a_row_is_planned_under_its_settings(library, monkeypatch):
    q, k, v = (torch.randn(1, 64, 2, 64).bfloat16() for _ in range(3))
    seen = {}
    plan = library.plan

    def noting(*arguments, **options):
        seen.update((name, os.environ.get(name)) for name in ("VOLLEY_FWD_ROW", "VOLLEY_SECTION"))
        return plan(*arguments, **options)

    monkeypatch.setattr(library, "plan", noting)
    launch = rows.with_settings(library, "+3,VOLLEY_SECTION=8", (q, k, v, False), "cpu")
    wanted = F.scaled_dot_product_attention(*(x.transpose(1, 2).float() for x in (q, k, v)))
    torch.testing.assert_close(launch()[0].transpose(1, 2).float(), wanted, atol=2e-2, rtol=2e-2)
    assert seen == {"VOLLEY_FWD_ROW": "+3", "VOLLEY_SECTION": "8"}
    assert not seen.keys() & os.environ.keys()
