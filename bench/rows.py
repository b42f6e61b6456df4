#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Times rows of the forward's table beside each other in one process: what each technique is worth.

    bench/rows.py --library LIBVOLLEY_SO --out rows.json --cells 'bf16-128-full:16;+1' [--quick]

Cells are <dtype>-<head dim>-<full|causal>: and rows by their numbers (VOLLEY_FWD_ROW), separated by
semicolons, each perhaps with a label before it and more of the environment after it:
"no turns@+1;section of 8@20,VOLLEY_SECTION=8". Rows +n need a library built with
-DVOLLEY_EXPERIMENTS=ON. Every output is compared with a reference first; a row that is wrong or
refused is an error, and the exit status 1.
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
from operations import OPERATIONS


def with_settings(library, settings, inputs, backend="sm90"):
    """A contestant planned under "16" or "+3,VOLLEY_SECTION=12": a row, and environment."""
    row, *rest = settings.split(",")
    variables = dict(item.split("=") for item in rest)
    if row:  # else the one that the plan prefers
        variables["VOLLEY_FWD_ROW"] = row
    os.environ.update(variables)  # read when the plan is made
    try:
        return contestants.volley(library, backend, *inputs)
    finally:
        for name in variables:
            del os.environ[name]


def run_cell(library, cell, rows, run, timing, peers, spread):
    torch.manual_seed(run)
    operation = OPERATIONS["fwd"]
    shape = (cell["b"], cell["sq"], cell["hq"], cell["d"])
    dtype = contestants.DTYPES[cell["dtype"]]
    q, k, v = (torch.randn(shape, device="cuda", dtype=dtype) for _ in range(3))
    inputs = [q * spread, k * spread, v, cell["causal"]]
    checks = {(batch, head): operation.exact([x[batch, :, head].double() for x in inputs[:-1]],
                                             cell["causal"])
              for batch, head in {(0, 0), (cell["b"] - 1, cell["hq"] - 1)}}
    makers = {}
    for item in rows:
        label, _, settings = item.rpartition("@")
        makers[label or f"row {settings}"] = lambda *inputs, settings=settings: with_settings(
            library, settings, inputs)
    if peers:
        makers |= {name: make for name, make in
                   operation.makers(library, cell["dtype"], peers).items() if name != "volley"}
    launches, out = {}, []
    for name, make in makers.items():
        launch, sentence = compare.ready(make, inputs, checks, operation.allowed[cell["dtype"]])
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
    parser.add_argument("--facts", help="JSON with `machine` and `source`")
    parser.add_argument("--cells", nargs="+", required=True)
    parser.add_argument("--lengths", default="512,1024,2048,4096,8192,16384")
    parser.add_argument("--quick", action="store_true", help="shorter warm-up, fewer replays")
    parser.add_argument("--peers", default="")
    parser.add_argument("--spread", type=float, default=1,
                        help="standard deviation of q and k: what trusted maxima cost at worst")
    options = parser.parse_args()
    timing = dict(rounds=2, warm_ms=40, replays=3) if options.quick else {}
    library = volley_abi.Library(options.library)
    facts = {}
    if options.facts:
        with open(options.facts) as file:
            facts = json.load(file)
    record = {"schema": 1, **facts, "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "peers": contestants.versions(), "rows": []}
    run = 0
    for spec in options.cells:
        kind, rows = spec.split(":")
        dtype, d, mask = kind.split("-")
        for s in map(int, options.lengths.split(",")):
            run += 1
            heads = compare.WIDTH // int(d)
            variant = f"q and k of {options.spread:g}" if options.spread != 1 else "plain"
            cell = {"op": "fwd", "dtype": dtype, "mode": "default", "variant": variant,
                    "d": int(d), "dv": int(d),
                    "hq": heads, "hk": heads, "b": compare.TOKENS // s, "sq": s, "sk": s,
                    "causal": mask == "causal"}
            out = run_cell(library, cell, rows.split(";"), run, timing, options.peers,
                           options.spread)
            record["rows"] += out
            print(f"{kind} {s}: " + "  ".join(
                f"{r['impl']} {r.get('error') or format(r['tflops'], '.0f')}" for r in out),
                flush=True)
            with open(options.out, "w") as file:
                json.dump(record, file, indent=1)
    return 1 if any("error" in row for row in record["rows"]) else 0


if __name__ == "__main__":
    raise SystemExit(main())
