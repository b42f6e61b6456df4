#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Puts the forward's record into README.md: a table between two markers, and a plot beside the
record.

    bench/page.py            writes both; the plot needs matplotlib
    bench/page.py --check    changes nothing, exits 1 when either is not that of the record

The plot carries the digest of what it was drawn from, so that a check needs no matplotlib.
"""
import argparse
import hashlib
import json
import sys
from pathlib import Path

import record as records

ROOT = Path(__file__).resolve().parent.parent
RECORD = "results/h200/forward.json"
PLOT = "results/h200/forward.svg"
BEGIN, END = "<!-- results: begin, by bench/page.py -->", "<!-- results: end -->"
NAMES = {"volley": "Volley", "fa3": "FlashAttention-3", "fa4": "FlashAttention-4",
         "cudnn": "cuDNN", "fa2": "FlashAttention-2"}
COLOURS = {"volley": "#d62728", "fa3": "#1f77b4", "fa4": "#9467bd", "cudnn": "#2ca02c",
           "fa2": "#7f7f7f"}


def forward_rows(record):
    """Dense rows of the protocol that counts, from 512 tokens on."""
    return [row for row in record["rows"] if row.get("protocol") == "sustained" and
            row["op"] == "fwd" and row["variant"] == "plain" and row["sq"] >= 512]


def kinds(rows):
    """(dtype, d, causal) in the order of the table."""
    return sorted({(row["dtype"], row["d"], row["causal"]) for row in rows})


def of_kind(rows, kind):
    return [row for row in rows if (row["dtype"], row["d"], row["causal"]) == kind]


def thousands(s):
    return f"{s // 1024}k" if s >= 1024 else str(s)


def table(record):
    rows = forward_rows(record)
    lengths = sorted({row["sq"] for row in rows})
    peers = [name for name in NAMES if name != "volley" and
             any(row["impl"] == name for row in rows)]
    yield ("| dtype, head dim, mask | " + " | ".join(map(thousands, lengths)) + " | " +
           " | ".join(f"to {NAMES[peer]}" for peer in peers) + " |")
    yield "|---|" + "---|" * (len(lengths) + len(peers))
    for dtype, d, causal in kinds(rows):
        ours = {row["sq"]: row["tflops"] for row in of_kind(rows, (dtype, d, causal))
                if row["impl"] == "volley"}
        cells = [f"{ours[s]:.0f}" if s in ours else "-" for s in lengths]
        for peer in peers:
            found = records.ratios(record, "sustained", peer, lambda c: c["sq"] >= 512 and
                                   (c["dtype"], c["d"], c["causal"]) == (dtype, d, causal))
            mean = records.geometric_mean(found.values())
            cells.append("-" if mean is None else f"{mean:.2f}x")
        yield f"| {dtype}, {d}, {'causal' if causal else 'full'} | " + " | ".join(cells) + " |"


def section(record):
    source = record["source"]
    peers = (f"{NAMES[key]} ({version})" for key, version in record["peers"].items()
             if key in NAMES)
    words = [f"TFLOP/s of the forward on one {record['machine']['device']}, by length; "
             "b * s = 16384, hidden size 2048, sustained;",
             "then the geometric mean over the lengths of a peer's time over Volley's, taken in "
             "the same process. Peers:",
             ", ".join(peers) + ".",
             f"Record: [{RECORD}]({RECORD}), of kernel tree `{source['kernel_tree'][:12]}`;",
             "protocols: [docs/tuning.md](docs/tuning.md)."]
    return "\n".join([BEGIN, *words, "", *table(record), "", f"![TFLOP/s by length]({PLOT})", END])


def replaced(readme, text):
    """README with its section exchanged."""
    begin, end = readme.index(BEGIN), readme.index(END) + len(END)
    return readme[:begin] + text + readme[end:]


def digest(record):
    points = [[row[key] for key in ("dtype", "d", "causal", "sq", "impl", "tflops")]
              for row in forward_rows(record)]
    drawn = json.dumps([record["machine"]["device"], points]) + Path(__file__).read_text()
    return hashlib.sha256(drawn.encode()).hexdigest()


def draw(record, path):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "volley", "font.size": 9})
    import matplotlib.pyplot as plt
    rows = forward_rows(record)
    columns = sorted({(row["dtype"], row["d"]) for row in rows})
    figure, axes = plt.subplots(2, len(columns), figsize=(3 * len(columns), 5.5), sharex=True,
                                sharey=True, squeeze=False, layout="constrained")
    lengths = sorted({row["sq"] for row in rows})
    names = [name for name in NAMES if any(row["impl"] == name for row in rows)]
    for column, (dtype, d) in enumerate(columns):
        for line, causal in enumerate((False, True)):
            panel = axes[line][column]
            panel.set_title(f"{dtype}, head dim {d}, {'causal' if causal else 'full'}")
            for name in names[::-1]:
                points = sorted((row["sq"], row["tflops"]) for row in
                                of_kind(rows, (dtype, d, causal)) if row["impl"] == name)
                x, y = zip(*points) if points else ((), ())
                panel.plot(x, y, marker="o", markersize=3, color=COLOURS[name],
                           linewidth=2 if name == "volley" else 1.2, label=NAMES[name])
            panel.set_xscale("log", base=2)
            panel.set_xticks(lengths, list(map(thousands, lengths)))
            panel.grid(alpha=0.3)
    axes[0][0].set_ylim(0, 1.05 * max(row["tflops"] for row in rows))
    figure.supylabel("TFLOP/s")
    figure.supxlabel("tokens of a sequence")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside upper center",
                  ncols=3 * len(columns) // 2)
    figure.savefig(path, metadata={"Date": None, "Description": f"data {digest(record)}"})


def outdated(record, readme, plot):
    """What is not that of the record: sentences."""
    if BEGIN not in readme or END not in readme:
        yield f"README.md lacks its markers {BEGIN} and {END}"
    elif replaced(readme, section(record)) != readme:
        yield f"README.md's table is not that of {RECORD}"
    if digest(record) not in plot:
        yield f"{PLOT} was not drawn from {RECORD}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    record, readme, plot = records.read(ROOT / RECORD), ROOT / "README.md", ROOT / PLOT
    if options.check:
        drawn = plot.read_text() if plot.exists() else ""
        sentences = list(outdated(record, readme.read_text(), drawn))
        print("\n".join(sentences) or f"README.md and {PLOT} match {RECORD}")
        if sentences:
            print("bench/page.py writes them anew", file=sys.stderr)
        return 1 if sentences else 0
    readme.write_text(replaced(readme.read_text(), section(record)))
    draw(record, plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
