#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Times rows of the forward's table beside each other in one process: what each technique is worth.

    bench/rows.py --library LIBVOLLEY_SO --out rows.json --cells bf16-128-full:16,42 [--quick]

Cells are <dtype>-<head dim>-<full|causal>: and the numbers of rows (VOLLEY_FWD_ROW), perhaps with
more of the environment; most of the rows need a library built with -DVOLLEY_EXPERIMENTS=ON. Every
output is compared with a reference first.
"""
import argparse
import json
import os
import time

import torch

import compare
import contestants
import protocol
import volley_abi


def with_settings(library, settings, inputs):
    """A contestant planned under "16" or "16+VOLLEY_SECTION=12": a row, and environment."""
    row, *rest = settings.split("+")
    variables = {"VOLLEY_FWD_ROW": row, **dict(item.split("=") for item in rest)}
    os.environ.update(variables)  # read when the plan is made
    try:
        return contestants.volley(library, *inputs)
    finally:
        for name in variables:
            del os.environ[name]


def run_cell(library, cell, rows, run, timing, peers):
    torch.manual_seed(run)
    shape = (cell["b"], cell["sq"], cell["hq"], cell["d"])
    dtype = contestants.DTYPES[cell["dtype"]]
    inputs = [*(torch.randn(shape, device="cuda", dtype=dtype) for _ in range(3)), cell["causal"]]
    checks = {at: compare.reference(*inputs, *at)
              for at in {(0, 0), (cell["b"] - 1, cell["hq"] - 1)}}
    makers = {f"row {row}": lambda *inputs, row=row: with_settings(library, row, inputs)
              for row in rows}
    if peers:
        makers |= {name: make for name, make in
                   contestants.makers(library, cell["dtype"], peers).items() if name != "volley"}
    launches, out = {}, []
    for name, make in makers.items():
        launch, sentence = compare.ready(make, inputs, checks, compare.ALLOWED[cell["dtype"]])
        if sentence is None:
            launches[name] = launch
        else:
            out.append({**cell, "impl": name, "error": sentence, "run": run})
    flops = 4 * compare.TOKENS * cell["hq"] * cell["sk"] * cell["d"] / (2 if cell["causal"] else 1)
    for name, times in protocol.sustained(launches, **timing).items():
        out.append({**cell, "impl": name, "protocol": "sustained", **times,
                    "tflops": flops / times["ms"] / 1e9, "run": run})
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--cells", nargs="+", required=True)
    parser.add_argument("--lengths", default="512,1024,2048,4096,8192,16384")
    parser.add_argument("--quick", action="store_true", help="shorter warm-up, fewer replays")
    parser.add_argument("--peers", default="")
    options = parser.parse_args()
    timing = dict(rounds=2, warm_ms=40, replays=3) if options.quick else {}
    library = volley_abi.Library(options.library)
    record = {"schema": 1, "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "rows": []}
    run = 0
    for spec in options.cells:
        kind, rows = spec.split(":")
        dtype, d, mask = kind.split("-")
        for s in map(int, options.lengths.split(",")):
            run += 1
            heads = compare.WIDTH // int(d)
            cell = {"op": "fwd", "dtype": dtype, "variant": "plain", "d": int(d), "dv": int(d),
                    "hq": heads, "hk": heads, "b": compare.TOKENS // s, "sq": s, "sk": s,
                    "causal": mask == "causal"}
            out = run_cell(library, cell, rows.split(","), run, timing, options.peers)
            record["rows"] += out
            print(f"{kind} {s}: " + "  ".join(
                f"{r['impl']} {r.get('error') or format(r['tflops'], '.0f')}" for r in out),
                flush=True)
            with open(options.out, "w") as file:
                json.dump(record, file, indent=1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
