#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Times Volley's forward beside its peers in one process and writes a record.

    bench/compare.py --library LIBVOLLEY_SO --facts FACTS_JSON --out PART.json
                     [--only TEXT]... [--part I/N] [--peers fa3,fa4,cudnn,fa2,volley_v2]

Needs torch with CUDA; the peers are torch's own cuDNN and FlashAttention-2, and where they are
installed FlashAttention-3 (fa3-fwd) and FlashAttention-4 (flash-attn-4); volley_v2, our sm80
kernels on the same card, takes part when it is named, also with every base one element off. Every
output is compared with a reference before it is timed; a wrong or refused one becomes an error row.
A cell is called "bf16 d 64 causal s 512"; --only takes those that hold TEXT, --part one of N equal
shares, so that no process runs for long: bench/merge.py makes one record of the parts. FACTS_JSON
(of scripts/gpu_check.sh) has `machine` and `source`. Fields and protocols: docs/tuning.md.
"""
import argparse
import json
import math
import time

import torch

import contestants
import protocol
import volley_abi

TOKENS = 16384  # b * sq, the same work for the card in every cell
WIDTH = 2048    # hq * d
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
KINDS = [("bf16", 64), ("bf16", 128), ("bf16", 256), ("fp16", 128)]
# One rounding of the weights and one of the output, with room, beside the largest output.
ALLOWED = {"bf16": 2 ** -6, "fp16": 2 ** -9}


def name_of(cell):
    mask = "causal" if cell["causal"] else "full"
    return f"{cell['dtype']} d {cell['d']} {mask} s {cell['sq']}"


def cells():
    for dtype, d in KINDS:
        for causal in (False, True):
            for s in LENGTHS:
                yield {"op": "fwd", "dtype": dtype, "mode": "default", "variant": "plain", "d": d,
                       "dv": d, "hq": WIDTH // d, "hk": WIDTH // d, "b": TOKENS // s, "sq": s,
                       "sk": s, "causal": causal}


def chosen(only, part):
    """Cells whose name holds one of `only`; of these share I of N, each N-th, so that shares take
    about as long."""
    index, shares = (int(x) for x in part.split("/"))
    wanted = [c for c in cells() if not only or any(f"{text} " in f"{name_of(c)} "
                                                    for text in only)]
    return [c for i, c in enumerate(wanted) if i % shares == index - 1]


def reference(q, k, v, causal, batch, head):
    """One head in float64: 2 GB of scores at 16k tokens."""
    q, k, v = (x[batch, :, head].double() for x in (q, k, v))
    scores = q @ k.T / math.sqrt(q.shape[-1])
    if causal:
        keep = torch.ones(scores.shape, dtype=torch.bool, device=q.device).tril()
        scores.masked_fill_(~keep, -math.inf)
    return torch.softmax(scores, -1) @ v


def deviation(o, wanted, allowed):
    """None when `o` is right, else a sentence."""
    if not torch.isfinite(o).all():
        return "the output has values that are not finite"
    worst = (o.double() - wanted).abs().max().item()
    bound = allowed * wanted.abs().max().item()
    return None if worst <= bound else f"off by {worst:.3g}, allowed is {bound:.3g}"


def identity(contestant):
    """The fields of a row that say who it was."""
    impl, _, variant = contestant.partition("/")
    return {"impl": impl, **({"variant": variant} if variant else {})}


def ready(make, inputs, checks, allowed):
    """(launch, None) or (None, sentence)."""
    try:
        launch = make(*inputs)
        o = launch()
        torch.cuda.synchronize()
        for (batch, head), wanted in checks.items():
            sentence = deviation(o[batch, :, head], wanted, allowed)
            if sentence is not None:
                return None, f"wrong at batch {batch}, head {head}: {sentence}"
        protocol.capture(launch, 1)  # as the timing will
        return launch, None
    except Exception as failure:  # peers raise what they like; it becomes the row's error
        return None, (str(failure).split("\n")[0] or type(failure).__name__)[:300]


def run_cell(library, cell, run, peers):
    torch.manual_seed(cell["sq"] + cell["d"])
    shape = (cell["b"], cell["sq"], cell["hq"], cell["d"])
    dtype = contestants.DTYPES[cell["dtype"]]
    inputs = [*(torch.randn(shape, device="cuda", dtype=dtype) for _ in range(3)), cell["causal"]]
    checks = {at: reference(*inputs, *at) for at in {(0, 0), (cell["b"] - 1, cell["hq"] - 1)}}
    launches, rows = {}, []
    for name, make in contestants.makers(library, cell["dtype"], peers).items():
        launch, sentence = ready(make, inputs, checks, ALLOWED[cell["dtype"]])
        if sentence is None:
            launches[name] = launch
        else:
            rows.append({**cell, **identity(name), "error": sentence, "run": run})
    flops = 4 * TOKENS * cell["hq"] * cell["sk"] * cell["d"] / (2 if cell["causal"] else 1)
    for protocol_name in ("sustained", "burst"):
        timed = getattr(protocol, protocol_name)(launches)
        for name, times in timed.items():
            rows.append({**cell, **identity(name), "protocol": protocol_name, **times,
                         "tflops": flops / times["ms"] / 1e9, "run": run})
    return rows


def shown(rows):
    """What a cell's line says: TFLOP/s by impl, sustained, and who failed."""
    def who(row):
        return row["impl"] + (f" {row['variant']}" if row["variant"] != "plain" else "")

    words = [f"{who(r)} {r['tflops']:.0f}" for r in rows if r.get("protocol") == "sustained"]
    return "  ".join(words + [f"{who(r)}: {r['error']}" for r in rows if "error" in r])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--facts", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only", action="append")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--peers", default="fa3,fa4,cudnn,fa2")
    options = parser.parse_args()

    library = volley_abi.Library(options.library)
    with open(options.facts) as file:
        facts = json.load(file)
    facts["machine"] |= {"torch": torch.__version__,
                         "sms": torch.cuda.get_device_properties(0).multi_processor_count}
    record = {"schema": 1, **facts,
              "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "peers": contestants.versions(),
              "rows": []}
    for run, cell in enumerate(chosen(options.only, options.part), 1):
        begin = time.perf_counter()
        rows = run_cell(library, cell, run, options.peers.split(","))
        record["rows"] += rows
        print(f"{name_of(cell)}: {shown(rows)}  ({time.perf_counter() - begin:.1f} s)", flush=True)
        with open(options.out, "w") as file:  # each time: a run that is cut off leaves its rows
            json.dump(record, file, indent=1)
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
