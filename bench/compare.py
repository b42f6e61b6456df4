#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Times Volley's forward beside its peers in one process and writes a record.

    bench/compare.py --library LIBVOLLEY_SO --facts FACTS_JSON --out forward.json [--quick]

Needs torch with CUDA; the peers are torch's own cuDNN and FlashAttention-2, and FlashAttention-3
where the package fa3-fwd is installed. Volley is called through its C ABI on torch's memory and
stream. Every output is compared with a reference before it is timed; a wrong or refused one becomes
an error row. FACTS_JSON (of scripts/gpu_check.sh) has `machine` and `source`. The fields of a row
and the protocols: docs/tuning.md.
"""
import argparse
import importlib.metadata
import json
import math
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import protocol
import volley_abi

try:
    import fa3_fwd_interface as fa3
except ImportError:
    fa3 = None

TOKENS = 16384  # b * sq, the same work for the card in every cell
WIDTH = 2048    # hq * d
PEERS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "fa2": SDPBackend.FLASH_ATTENTION}


def cells(quick):
    for d in (64, 128):
        for causal in (False, True):
            for s in (1024, 4096) if quick else (512, 1024, 2048, 4096, 8192, 16384):
                yield {"op": "fwd", "dtype": "bf16", "mode": "default", "variant": "plain", "d": d,
                       "dv": d, "hq": WIDTH // d, "hk": WIDTH // d, "b": TOKENS // s, "sq": s,
                       "sk": s, "causal": causal}


def view(x):
    return volley_abi.tensor(x.data_ptr(), volley_abi.BF16, x.shape, x.stride(), volley_abi.CUDA,
                             x.device.index)


def volley_contestant(library, q, k, v, causal):
    """(launch, output). The launch asks for torch's current stream each time: a capture has its
    own."""
    o = torch.full_like(q, math.nan)
    plan = library.plan(*(view(x) for x in (q, k, v, o)), backend="sm90", causal=int(causal))
    workspace = torch.empty(plan.workspace_size, dtype=torch.uint8, device=q.device)

    def launch():
        plan.run(workspace.data_ptr(), torch.cuda.current_stream().cuda_stream)
        return o

    return launch


def peer_contestant(backend, q, k, v, causal):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # views: SDPA wants heads first

    def launch():
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)

    return launch


def fa3_contestant(q, k, v, causal):
    def launch():
        o = fa3.flash_attn_func(q, k, v, causal=causal)
        return o[0] if isinstance(o, tuple) else o

    return launch


def peer_versions():
    cudnn = torch.backends.cudnn.version()  # 91900 is 9.19.0
    versions = {"cudnn": f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}",
                "fa2": "torch SDPA flash"}
    if fa3 is not None:
        versions["fa3"] = "fa3-fwd " + importlib.metadata.version("fa3-fwd")
    return versions


def reference(q, k, v, causal, batch, head):
    """One head in float64: 2 GB of scores at 16k tokens."""
    q, k, v = (x[batch, :, head].double() for x in (q, k, v))
    scores = q @ k.T / math.sqrt(q.shape[-1])
    if causal:
        keep = torch.ones(scores.shape, dtype=torch.bool, device=q.device).tril()
        scores.masked_fill_(~keep, -math.inf)
    return torch.softmax(scores, -1) @ v


def deviation(o, wanted):
    """None when `o` is right, else a sentence. One bf16 rounding of P and one of O, with room."""
    if not torch.isfinite(o).all():
        return "the output has values that are not finite"
    worst = (o.double() - wanted).abs().max().item()
    allowed = 2 ** -6 * wanted.abs().max().item()
    return None if worst <= allowed else f"off by {worst:.3g}, allowed is {allowed:.3g}"


def ready(make, q, k, v, causal, checks):
    """(launch, None) or (None, sentence)."""
    try:
        launch = make()
        o = launch()
        torch.cuda.synchronize()
        for (batch, head), wanted in checks.items():
            if (sentence := deviation(o[batch, :, head], wanted)) is not None:
                return None, f"wrong at batch {batch}, head {head}: {sentence}"
        protocol.capture(launch, 1)  # as the timing will
        return launch, None
    except (volley_abi.VolleyError, RuntimeError) as failure:
        return None, str(failure).split("\n")[0]


def run_cell(library, cell, run, seed):
    torch.manual_seed(seed)
    shape = (cell["b"], cell["sq"], cell["hq"], cell["d"])
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    causal = cell["causal"]
    checks = {at: reference(q, k, v, causal, *at)
              for at in {(0, 0), (cell["b"] - 1, cell["hq"] - 1)}}
    makers = {"volley": lambda: volley_contestant(library, q, k, v, causal)}
    for name, backend in PEERS.items():
        makers[name] = lambda backend=backend: peer_contestant(backend, q, k, v, causal)
    if fa3 is not None:
        makers["fa3"] = lambda: fa3_contestant(q, k, v, causal)
    launches, rows = {}, []
    for name, make in makers.items():
        launch, sentence = ready(make, q, k, v, causal, checks)
        if sentence is None:
            launches[name] = launch
        else:
            rows.append({**cell, "impl": name, "error": sentence, "run": run})
    flops = 4 * TOKENS * cell["hq"] * cell["sk"] * cell["d"] / (2 if causal else 1)
    for protocol_name in ("sustained", "burst"):
        timed = getattr(protocol, protocol_name)(launches)
        for name, times in timed.items():
            rows.append({**cell, "impl": name, "protocol": protocol_name, **times,
                         "tflops": flops / times["ms"] / 1e9, "run": run})
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--facts", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()

    library = volley_abi.Library(options.library)
    with open(options.facts) as file:
        facts = json.load(file)
    facts["machine"] |= {"torch": torch.__version__,
                         "sms": torch.cuda.get_device_properties(0).multi_processor_count}
    record = {"schema": 1, **facts,
              "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "peers": peer_versions(),
              "rows": []}
    for run, cell in enumerate(cells(options.quick), 1):
        rows = run_cell(library, cell, run, seed=run)
        record["rows"] += rows
        shown = "  ".join(f"{r['impl']} {r.get('tflops', 0):.0f}" for r in rows
                          if r.get("protocol") == "sustained" or "error" in r)
        print(f"d {cell['d']} {'causal' if cell['causal'] else 'full'} s {cell['sq']}: {shown}",
              flush=True)
        with open(options.out, "w") as file:  # each time: a run that is cut off leaves its rows
            json.dump(record, file, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
