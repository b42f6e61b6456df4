#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Times Volley's CPU backend beside torch's scaled_dot_product_attention and writes a record.

    bench/compare_cpu.py --library LIBVOLLEY_SO --out results/cpu/forward.json
                         [--op fwd|bwd] [--threads N] [--only TEXT] [--quick]

Both run in this process, on the same tensors (batch, heads, tokens, head dim) and with the same
number of threads, in turn. Needs torch. Every output is compared with float64 before it is timed; a
wrong or refused one becomes an error row. --only takes the cells whose name holds TEXT, as in
"fp32 d 64 causal". The fields of a row and the protocol `wall`: docs/tuning.md.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

import protocol
import volley_abi

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import kernel_tree  # noqa: E402

HEADS = 8  # b * h, the same in every cell
DTYPES = {"fp32": (torch.float32, volley_abi.F32, 2 ** -16),
          "bf16": (torch.bfloat16, volley_abi.BF16, 2 ** -6)}


def cells(op, quick):
    for dtype in DTYPES:
        for d in (64, 128):
            for causal in (False, True):
                for s in (512, 2048) if quick else (512, 1024, 2048, 4096):
                    yield {"op": op, "dtype": dtype, "mode": "default", "variant": "bhsd", "d": d,
                           "dv": d, "hq": HEADS, "hk": HEADS, "b": 1, "sq": s, "sk": s,
                           "causal": causal}


def name_of(cell):
    kind = "causal" if cell["causal"] else "full"
    return f"{cell['op']} {cell['dtype']} d {cell['d']} {kind} s {cell['sq']}"


def view(x):
    """Heads first in memory, tokens first for Volley; LSE has neither."""
    dtype = next(code for kind, code, _ in DTYPES.values() if kind == x.dtype)
    x = x.transpose(1, 2) if x.dim() == 4 else x
    return volley_abi.tensor(x.data_ptr(), dtype, x.shape, x.stride())


# A contestant is made from the cell's tensors and answers a launch, which returns the tensors that
# are to be right. OPS has, for each op: its inputs, its contestants, what is right, and its flops
# beside those of the forward.

def forward_inputs(cell):
    shape = (cell["b"], cell["hq"], cell["sq"], cell["d"])
    return tuple(torch.randn(shape, dtype=DTYPES[cell["dtype"]][0]) for _ in range(3))


def volley_forward(library, inputs, cell, threads):
    q, k, v = inputs
    o = torch.full_like(q, math.nan)
    plan = library.plan(*(view(x) for x in (q, k, v, o)), backend="cpu", num_threads=threads,
                        causal=int(cell["causal"]))

    def launch():
        plan.run()
        return (o,)

    return launch


def torch_forward(inputs, cell):
    q, k, v = inputs

    def launch():
        return (F.scaled_dot_product_attention(q, k, v, is_causal=cell["causal"]),)

    return launch


def exact(q, k, v, causal):
    scores = q @ k.T / math.sqrt(q.shape[-1])
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape, dtype=torch.bool).tril(), -math.inf)
    return torch.softmax(scores, -1) @ v


def exact_forward(inputs, cell, head):
    q, k, v = (x[0, head].double() for x in inputs)
    return (exact(q, k, v, cell["causal"]),)


def backward_inputs(cell):
    shape = (cell["b"], cell["hq"], cell["sq"], cell["d"])
    return tuple(torch.randn(shape, dtype=DTYPES[cell["dtype"]][0]) for _ in range(4))


def volley_backward(library, inputs, cell, threads):
    q, k, v, dout = inputs
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], dtype=torch.float32)
    options = {"backend": "cpu", "num_threads": threads, "causal": int(cell["causal"])}
    library.plan(*(view(x) for x in (q, k, v, o, lse)), **options).run()
    gradients = tuple(torch.full_like(x, math.nan) for x in (q, k, v))
    tensors = dict(zip("q k v o lse dout dq dk dv".split(), (q, k, v, o, lse, dout, *gradients)))
    plan = library.plan_backward({name: view(x) for name, x in tensors.items()}, **options)

    def launch():
        plan.run()
        return gradients, tensors

    return lambda: launch()[0]


def torch_backward(inputs, cell):
    *leaves, dout = inputs
    leaves = [x.detach().requires_grad_() for x in leaves]
    o = F.scaled_dot_product_attention(*leaves, is_causal=cell["causal"])
    return lambda: torch.autograd.grad(o, leaves, dout, retain_graph=True)


def exact_backward(inputs, cell, head):
    *leaves, dout = (x[0, head].double() for x in inputs)
    leaves = [x.requires_grad_() for x in leaves]
    return torch.autograd.grad(exact(*leaves, cell["causal"]), leaves, dout)


OPS = {"fwd": (forward_inputs, volley_forward, torch_forward, exact_forward, 1.0),
       "bwd": (backward_inputs, volley_backward, torch_backward, exact_backward, 2.5)}


def deviation(outputs, wanted, head, allowed):
    """None when every output is right in this head, else a sentence."""
    for got, right in zip(outputs, wanted):
        if not torch.isfinite(got).all():
            return "an output has values that are not finite"
        worst = (got[0, head].double() - right).abs().max().item()
        bound = allowed * right.abs().max().item()
        if worst > bound:
            return f"off by {worst:.3g}, allowed is {bound:.3g}"
    return None


def ready(make, inputs, cell, exact):
    """(launch, None) or (None, sentence)."""
    try:
        launch = make()
        outputs = launch()
    except (volley_abi.VolleyError, RuntimeError) as failure:
        return None, str(failure).split("\n")[0]
    head = cell["hq"] - 1
    sentence = deviation(outputs, exact(inputs, cell, head), head, DTYPES[cell["dtype"]][2])
    return (launch, None) if sentence is None else (None, f"wrong in head {head}: {sentence}")


def run_cell(library, cell, run, threads):
    torch.manual_seed(run)
    make_inputs, volley, peer, exact, share = OPS[cell["op"]]
    inputs = make_inputs(cell)
    makers = {"volley": lambda: volley(library, inputs, cell, threads),
              "torch_cpu": lambda: peer(inputs, cell)}
    launches, rows = {}, []
    for name, make in makers.items():
        launch, sentence = ready(make, inputs, cell, exact)
        if sentence is None:
            launches[name] = launch
        else:
            rows.append({**cell, "impl": name, "error": sentence, "run": run})
    flops = share * 4 * HEADS * cell["sq"] * cell["sk"] * cell["d"] / (2 if cell["causal"] else 1)
    for name, times in protocol.wall(launches).items():
        rows.append({**cell, "impl": name, "protocol": "wall", **times,
                     "tflops": flops / times["ms"] / 1e9, "run": run})
    return rows


def ratio(rows):
    """torch's time over Volley's, or None."""
    ms = {row["impl"]: row.get("ms") for row in rows}
    return ms["torch_cpu"] / ms["volley"] if ms.get("torch_cpu") and ms.get("volley") else None


def instruction_set(library):
    """The kernel that plans take here; its name ends the config's."""
    x = view(torch.zeros(1, 1, 1, 64))
    return library.plan(x, x, x, x, backend="cpu").describe()["config"]["name"].split(", ")[-1]


def machine(library, threads):
    cpu = library.doctor()["cpu"]
    with open("/proc/cpuinfo") as file:
        amx = " amx_bf16" in file.read()
    return {"device": "cpu", "cpu": cpu["model"], "architecture": cpu["architecture"],
            "features": cpu["features"], "amx_bf16": amx, "threads": threads,
            "instruction_set": instruction_set(library), "torch": torch.__version__}


def source():
    def git(*arguments):
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True,
                              check=True).stdout.strip()
    return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain")),
            "cpu_tree": kernel_tree.tree(ROOT, kernel_tree.CPU)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--out")
    parser.add_argument("--op", choices=sorted(OPS), default="fwd")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    library = volley_abi.Library(options.library)
    record = {"schema": 1, "machine": machine(library, options.threads), "source": source(),
              "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "peers": {"torch_cpu": f"torch {torch.__version__} scaled_dot_product_attention"},
              "rows": []}
    ratios = []
    for run, cell in enumerate(cells(options.op, options.quick), 1):
        if options.only not in name_of(cell):
            continue
        rows = run_cell(library, cell, run, options.threads)
        record["rows"] += rows
        shown = "  ".join(f"{r['impl']} {r['ms']:.1f} ms [{r['ms_p10']:.1f}, {r['ms_p90']:.1f}]"
                          if "ms" in r else f"{r['impl']}: {r['error']}" for r in rows)
        if (faster := ratio(rows)) is not None:
            ratios.append(faster)
            shown += f"  {faster:.2f}x"
        print(f"{name_of(cell)}: {shown}", flush=True)
        if options.out:
            with open(options.out, "w") as file:  # each time: a run cut off leaves its rows
                json.dump(record, file, indent=1)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{mean:.2f}x torch in the geometric mean, {min(ratios):.2f}x at worst")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
