# SPDX-License-Identifier: BSD-3-Clause
"""What programs ask of a record in results/: its cells, ratios between contestants, means."""
import json
import math

CELL = ("op", "dtype", "mode", "variant", "d", "dv", "hq", "hk", "b", "sq", "sk", "causal")
BEST = "best of fa3, cudnn"  # a peer made of two: the faster one in each cell
# Variants of a contestant that computes a plain cell from other layouts (contestants.py).
LAYOUTS = ("misaligned", "bhsd", "qkv", "strided")


def read(path):
    with open(path) as file:
        return json.load(file)


def write(record, path):
    with open(path, "w") as file:
        json.dump(record, file, indent=1)
        file.write("\n")


def cell_of(row):
    return tuple(row[key] for key in CELL)


def times(record, protocol):
    """{(cell, run): {impl: ms}} of the rows that have times; "impl/LAYOUT" is one, too."""
    table = {}
    for row in record["rows"]:
        if row.get("protocol") == protocol and "ms" in row:
            name = row["impl"]
            if row["variant"] in LAYOUTS:
                name, row = f"{name}/{row['variant']}", {**row, "variant": "plain"}
            table.setdefault((cell_of(row), row["run"]), {})[name] = row["ms"]
    return table


def ratios(record, protocol, peer, wanted=lambda cell: True, ours="volley"):
    """{cell: the peer's time over that of `ours`}; only within one run."""
    found = {}
    for (cell, _), ms in times(record, protocol).items():
        names = ("fa3", "cudnn") if peer == BEST else (peer,)
        theirs = [ms[name] for name in names if name in ms]
        if theirs and ours in ms and wanted(dict(zip(CELL, cell))):
            found[cell] = min(theirs) / ms[ours]
    return found


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None
