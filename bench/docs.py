#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Puts records of the GPU into docs/: tables between markers.

    bench/docs.py            writes them
    bench/docs.py --check    changes nothing, exits 1 when a table is not that of its record

A record that is not there yet leaves a sentence in its table's place: which program writes it.
README's table is bench/page.py's.
"""
import argparse
import csv
import json
import sys
from pathlib import Path

import page
import record as records

ROOT = Path(__file__).resolve().parent.parent

# What profile.sh asks ncu for, in words.
METRICS = {
    "gpu__time_duration.sum": "duration",
    "sm__cycles_elapsed.max": "cycles",
    "sm__inst_executed_pipe_tensor_op_gmma.sum": "WGMMA instructions, a warp each",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed":
        "tensor cores busy, of all cycles",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active":
        "tensor cores busy, of cycles with a CTA on the SM",
    "smsp__inst_executed_op_tma_ld.sum": "TMA loads",
    "smsp__sass_inst_executed_op_tma_ld.sum": "TMA loads",
    "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum": "bytes that TMA brought",
    "smsp__inst_executed_op_global_ld.sum": "ordinary loads from global memory, a warp each",
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active":
        "special functions (EX2), of their peak",
    "sm__inst_issued.avg.pct_of_peak_sustained_active": "issue slots used",
    "lts__t_sector_hit_rate.pct": "L2 hits",
    "dram__bytes_read.sum": "bytes read from memory",
    "smsp__sass_inst_executed_op_local.sum": "accesses to local memory (spills)"}


LAYOUTS = {
    "misaligned": "every base one element off (copied first)",
    "bhsd": "(b, h, s, d) in memory",
    "qkv": "q, k, v slices of one tensor",
    "strided": "elements of a row apart, (b, d, h, s) in memory (copied first)"}


def title(row):
    words = [row["dtype"], f"d = {row['d']}", "causal" if row["causal"] else "full"]
    return ", ".join(words + [row["variant"]] * (row["variant"] != "plain"))


def origin(record, path):
    """From where and when a record is."""
    tree = record.get("source", {}).get("kernel_tree")
    of_tree = f", of kernel tree `{tree[:12]}`" if tree else ""
    return f"Record: [results](../{path}), taken {record['taken'][:10]}{of_tree}."


def in_order(values):
    return list(dict.fromkeys(values))


def contestants(record, path):
    """TFLOP/s by length, each beside the first of its table."""
    yield origin(record, path)
    rows = record["rows"]
    for kind in in_order(map(title, rows)):
        mine = [row for row in rows if title(row) == kind]
        lengths = sorted({row["sq"] for row in mine})
        tflops = {(row["impl"], row["sq"]): row.get("tflops") for row in mine}
        names = in_order(row["impl"] for row in mine)
        yield ""
        yield f"| {kind} | " + " | ".join(map(page.thousands, lengths)) + " |"
        yield "|---|" + "---|" * len(lengths)
        for name in names:
            cells = [beside(tflops.get((name, s)), tflops.get((names[0], s)), name == names[0])
                     for s in lengths]
            yield f"| {page.NAMES.get(name, name)} | " + " | ".join(cells) + " |"


def beside(tflops, first, is_first):
    if tflops is None:
        return "failed"
    if is_first or not first:
        return f"{tflops:.0f}"
    return f"{tflops:.0f} ({100 * (tflops / first - 1):+.0f} %)"


GRID = 512  # tokens: what FlashAttention-2's paper begins with; shorter lengths are told apart


def beside_fa2(record, path):
    """The V2 path's TFLOP/s by length, its speed to FlashAttention-2's, and what misaligned bases
    leave of it; the last three from GRID tokens on."""
    yield origin(record, path)
    for op, name in (("fwd", "forward"), ("bwd", "backward")):
        rows = [row for row in record["rows"] if row["op"] == op and row["impl"] == "volley_v2" and
                row.get("protocol") == "sustained" and row["variant"] == "plain"]
        lengths = sorted({row["sq"] for row in rows})
        yield ""
        yield (f"| {name} | " + " | ".join(map(page.thousands, lengths)) +
               " | to FlashAttention-2 | worst | one element off |")
        yield "|---|" + "---|" * (len(lengths) + 3)
        for kind in in_order(map(title, rows)):
            of_kind = [row for row in rows if title(row) == kind]
            cells = {records.cell_of(row) for row in of_kind if row["sq"] >= GRID}
            tflops = {row["sq"]: row["tflops"] for row in of_kind}

            def to(peer):
                found = records.ratios(record, "sustained", peer, ours="volley_v2")
                return [found[cell] for cell in cells if cell in found]

            words = [f"{tflops[s]:.0f}" if s in tflops else "-" for s in lengths]
            if fa2 := to("fa2"):
                words += [f"{records.geometric_mean(fa2):.2f}x", f"{min(fa2):.2f}x"]
            else:
                words += ["-", "-"]
            misaligned = [1 / x for x in to("volley_v2/misaligned")]
            words.append(f"{min(misaligned):.2f}x at least" if misaligned else "-")
            yield " | ".join([f"| {kind}", *words]) + " |"
        for words, wanted in ((f"from {GRID} tokens on", lambda s: s >= GRID),
                              (f"below {GRID} tokens", lambda s: s < GRID)):
            ratios = records.ratios(record, "sustained", "fa2",
                                    lambda c: c["op"] == op and wanted(c["sq"]),
                                    "volley_v2").values()
            if ratios:
                yield ""
                yield (f"The {len(ratios)} cells of the {name} {words}: "
                       f"{records.geometric_mean(ratios):.3f}x FlashAttention-2 in the geometric "
                       f"mean, {min(ratios):.3f}x in the worst.")
    yield from layouts(record)


def beside_peers(record, path):
    """The forward's time beside each peer's, both protocols, by dtype and length."""
    yield origin(record, path)
    yield ""
    peers = [name for name in ("fa3", "fa4", "cudnn", "fa2", records.BEST)]
    yield "| peer's time over Volley's: mean (worst, and where) | " + " | ".join(
        page.NAMES.get(peer, peer) for peer in peers) + " |"
    yield "|---|" + "---|" * len(peers)
    for dtype in in_order(row["dtype"] for row in record["rows"]):
        for words, wanted in ((f"from {GRID} tokens on", lambda s: s >= GRID),
                              (f"below {GRID} tokens", lambda s: s < GRID)):
            for protocol in ("sustained", "burst"):
                found = [records.ratios(record, protocol, peer, lambda c: c["op"] == "fwd" and
                                        c["dtype"] == dtype and wanted(c["sq"]))
                         for peer in peers]
                count = max(map(len, found))
                if count:
                    yield (f"| {dtype}, {words}, {protocol}, {count} cells | " +
                           " | ".join(map(mean_and_worst, found)) + " |")


def mean_and_worst(ratios):
    if not ratios:
        return "-"
    worst = min(ratios, key=ratios.get)
    c = dict(zip(records.CELL, worst))
    mask = "causal" if c["causal"] else "full"
    return (f"{records.geometric_mean(ratios.values()):.3f}x ({ratios[worst]:.3f}x, d {c['d']} "
            f"{mask} {page.thousands(c['sq'])})")


def layouts(record):
    """What each layout leaves of the V2 path's speed."""
    found = {(op, layout): records.ratios(record, "sustained", f"volley_v2/{layout}",
                                          lambda c, op=op: c["op"] == op, "volley_v2")
             for op in ("fwd", "bwd") for layout in records.LAYOUTS}
    # The cells that every layout was measured in.
    cells = [cell for cell in found["fwd", "strided"] if all(
        (op, *cell[1:]) in found[op, layout] for op, layout in found)]
    if not cells:
        return
    yield ""
    yield "| share of the speed, by layout | " + " | ".join(
        f"{op}, {title(dict(zip(records.CELL, cell)))}, {page.thousands(cell[-2])}"
        for op in ("forward", "backward") for cell in cells) + " |"
    yield "|---|" + "---|" * (2 * len(cells))
    for layout in records.LAYOUTS:
        shares = [1 / found[op, layout][(op, *cell[1:])] for op in ("fwd", "bwd") for cell in cells]
        yield f"| {LAYOUTS[layout]} | " + " | ".join(f"{share:.2f}x" for share in shares) + " |"


def profile(lines, path):
    """ncu's values, a column a problem. The first line names columns, the second has the units."""
    names, units, *found = csv.reader(lines)
    yield f"Record: [ncu's own values](../{path}), written by `bench/profile.sh`."
    yield ""
    yield "| | | " + " | ".join(row[0] for row in found) + " |"
    yield "|---|---|" + "---|" * len(found)
    said = set()
    for name, words in METRICS.items():
        if name in names and words not in said:  # some have two names, and ncu may know both
            said.add(words)
            at = names.index(name)
            unit = f" {units[at]}" if units[at] and units[at] not in ("inst", "cycle") else ""
            values = [f"{row[at]}{unit}" for row in found]
            yield f"| {words} | `{name}` | " + " | ".join(values) + " |"


# A section: its document, its record, the table, and who writes the record.
SECTIONS = {
    "techniques": ("docs/tuning.md", "results/h200/rows.json", contestants,
                   "scripts/gpu_check.sh rows"),
    "peers": ("docs/tuning.md", "results/h200/forward.json", beside_peers,
              "scripts/gpu_check.sh bench"),
    "worst case": ("docs/numerics.md", "results/h200/rows_spread.json", contestants,
                   "scripts/gpu_check.sh rows"),
    "beside FlashAttention-2": ("docs/v2_path.md", "results/h200/v2.json", beside_fa2,
                                "scripts/gpu_check.sh v2"),
    "profile": ("docs/profiling.md", "results/h200/ncu.csv", profile, "bench/profile.sh")}


def markers(name):
    return f"<!-- {name}: begin, by bench/docs.py -->", f"<!-- {name}: end -->"


def replaced(document, name, text):
    """A document with one of its sections exchanged."""
    begin, end = markers(name)
    return document[:document.index(begin)] + text + document[document.index(end) + len(end):]


def section(name, root=ROOT):
    """A section's text with its markers."""
    _, path, table, program = SECTIONS[name]
    file = root / path
    if not file.exists():
        lines = [f"Not recorded yet: `{program}` writes `{path}`."]
    else:
        text = file.read_text()
        lines = table(json.loads(text) if path.endswith(".json") else text.splitlines(), path)
    begin, end = markers(name)
    return "\n".join([begin, *lines, end])


def outdated(root=ROOT):
    """What is not that of its record: sentences."""
    for name, (document, path, _, _) in SECTIONS.items():
        text = (root / document).read_text()
        if any(marker not in text for marker in markers(name)):
            yield f"{document} lacks the markers {' '.join(markers(name))}"
        elif replaced(text, name, section(name, root)) != text:
            yield f"{document}'s section '{name}' is not that of {path}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        sentences = list(outdated())
        print("\n".join(sentences) or "the tables of docs/ match their records")
        if sentences:
            print("bench/docs.py writes them anew", file=sys.stderr)
        return 1 if sentences else 0
    for name, (document, *_) in SECTIONS.items():
        file = ROOT / document
        file.write_text(replaced(file.read_text(), name, section(name)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
