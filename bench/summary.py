#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Says how a record compares with each peer: the geometric mean of the peer's time over that of an
implementation of ours, and the worst cell.

    bench/summary.py results/h200/forward.json [volley|volley_v2|volley_v2/misaligned]

Above 1 ours is faster. Cells from 512 tokens on count; shorter ones stand below, as does every
contestant that failed.
"""
import itertools
import sys

import record as records

PEERS = ("fa3", "fa4", "cudnn", "fa2", records.BEST)


def cell_name(cell):
    c = dict(zip(records.CELL, cell))
    return f"{c['dtype']} d {c['d']} {'causal' if c['causal'] else 'full'} s {c['sq']}"


def line(record, protocol, kind, peer, wanted, ours):
    ratios = records.ratios(record, protocol, peer,
                            lambda c: (c["op"], c["dtype"]) == kind and wanted(c), ours)
    if not ratios:
        return None
    worst = min(ratios, key=ratios.get)
    return (f"  {peer:<20} {records.geometric_mean(ratios.values()):.3f} over {len(ratios)} cells, "
            f"worst {ratios[worst]:.3f} at {cell_name(worst)}")


def summary(record, ours="volley"):
    for name, wanted in (("from 512 tokens on", lambda c: c["sq"] >= 512),
                         ("shorter", lambda c: c["sq"] < 512)):
        for kind in itertools.product(("fwd", "bwd"), ("bf16", "fp16")):
            for protocol in ("sustained", "burst"):
                lines = [line(record, protocol, kind, peer, wanted, ours) for peer in PEERS]
                lines = [text for text in lines if text]
                if lines:
                    yield f"{' '.join(kind)}, {protocol}, {name}:"
                    yield from lines
    for row in record["rows"]:
        if "error" in row:
            yield f"{row['impl']} failed at {cell_name(records.cell_of(row))}: {row['error']}"


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    print("\n".join(summary(records.read(sys.argv[1]), *sys.argv[2:])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
