#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Times Volley's forward or backward beside its peers in one process and writes a record.

    bench/compare.py --library LIBVOLLEY_SO --facts FACTS_JSON --out PART.json [--op fwd|bwd]
                     [--only TEXT]... [--part I/N] [--layouts TEXT]...
                     [--peers fa3,fa4,cudnn,fa2,volley_v2,volley_v2/misaligned]

Needs torch with CUDA; the peers are torch's own cuDNN and FlashAttention-2, and where they are
installed, for the forward, FlashAttention-3 (fa3-fwd) and FlashAttention-4 (flash-attn-4);
volley_v2, our sm80 kernels on the same card, takes part when it is named, /misaligned with every
base one element off. In cells that hold a --layouts TEXT it also computes from each layout of
contestants.py. Every output is compared with a reference before it is timed; a wrong or refused one
becomes an error row. A cell is called "bf16 d 64 causal s 512"; --only takes those that hold TEXT,
--part one of N equal shares, so that no process runs for long: bench/merge.py makes one record of
the parts. FACTS_JSON (of scripts/gpu_check.sh) has `machine` and `source`. Fields and protocols:
docs/tuning.md.
"""
import argparse
import json
import time

import torch

import contestants
import protocol
import volley_abi
from operations import OPERATIONS

TOKENS = 16384  # b * sq, the same work for the card in every cell
WIDTH = 2048    # hq * d


def name_of(cell):
    mask = "causal" if cell["causal"] else "full"
    return f"{cell['dtype']} d {cell['d']} {mask} s {cell['sq']}"


def cells(op):
    for dtype, d in OPERATIONS[op].kinds:
        for causal in (False, True):
            for s in OPERATIONS[op].lengths:
                yield {"op": op, "dtype": dtype, "mode": "default", "variant": "plain", "d": d,
                       "dv": d, "hq": WIDTH // d, "hk": WIDTH // d, "b": TOKENS // s, "sq": s,
                       "sk": s, "causal": causal}


def holds(cell, texts):
    return any(f"{text} " in f"{name_of(cell)} " for text in texts)


def chosen(op, only, part):
    """Cells whose name holds one of `only`; of these share I of N, each N-th, so that shares take
    about as long."""
    index, shares = (int(x) for x in part.split("/"))
    wanted = [c for c in cells(op) if not only or holds(c, only)]
    return [c for i, c in enumerate(wanted) if i % shares == index - 1]


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
        outputs = launch()
        torch.cuda.synchronize()
        for (batch, head), exact in checks.items():
            for i, (output, wanted) in enumerate(zip(outputs, exact, strict=True)):
                sentence = deviation(output[batch, :, head], wanted, allowed)
                if sentence is not None:
                    return None, f"output {i} wrong at batch {batch}, head {head}: {sentence}"
        protocol.capture(launch, 1)  # as the timing will
        return launch, None
    except Exception as failure:  # peers raise what they like; it becomes the row's error
        return None, (str(failure).split("\n")[0] or type(failure).__name__)[:300]


def run_cell(library, cell, run, peers):
    torch.manual_seed(cell["sq"] + cell["d"])
    operation = OPERATIONS[cell["op"]]
    shape = (cell["b"], cell["sq"], cell["hq"], cell["d"])
    dtype = contestants.DTYPES[cell["dtype"]]
    tensors = [torch.randn(shape, device="cuda", dtype=dtype) for _ in range(operation.inputs)]
    checks = {(batch, head): operation.exact([x[batch, :, head].double() for x in tensors],
                                             cell["causal"])
              for batch, head in {(0, 0), (cell["b"] - 1, cell["hq"] - 1)}}
    inputs = [*tensors, cell["causal"]]
    launches, rows = {}, []
    for name, make in operation.makers(library, cell["dtype"], peers).items():
        launch, sentence = ready(make, inputs, checks, operation.allowed[cell["dtype"]])
        if sentence is None:
            launches[name] = launch
        else:
            rows.append({**cell, **identity(name), "error": sentence, "run": run})
    pairs = TOKENS * cell["hq"] * cell["sk"] / (2 if cell["causal"] else 1)
    flops = operation.flops * pairs * cell["d"]
    timed = {"sustained": protocol.sustained(launches, operation.launches),
             "burst": protocol.burst(launches)}
    for protocol_name, times_of in timed.items():
        for name, times in times_of.items():
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
    parser.add_argument("--op", choices=list(OPERATIONS), default="fwd")
    parser.add_argument("--only", action="append")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--layouts", action="append", default=[])
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
    for run, cell in enumerate(chosen(options.op, options.only, options.part), 1):
        begin = time.perf_counter()
        peers = options.peers.split(",")
        if holds(cell, options.layouts):
            peers += [f"volley_v2/{layout}" for layout in contestants.LAYOUTS]
        rows = run_cell(library, cell, run, peers)
        record["rows"] += rows
        print(f"{name_of(cell)}: {shown(rows)}  ({time.perf_counter() - begin:.1f} s)", flush=True)
        with open(options.out, "w") as file:  # each time: a run that is cut off leaves its rows
            json.dump(record, file, indent=1)
        torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
