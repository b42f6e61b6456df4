#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Says how a record's forward compares with each peer: the geometric mean of the peer's time over
Volley's, and the worst cell.

    bench/summary.py results/h200/forward.json

Above 1 Volley is faster. Cells from 512 tokens on count; shorter ones stand below, as does every
contestant that failed.
"""
import sys

import record as records

PEERS = ("fa3", "fa4", "cudnn", "fa2", records.BEST)


def cell_name(cell):
    c = dict(zip(records.CELL, cell))
    return f"{c['dtype']} d {c['d']} {'causal' if c['causal'] else 'full'} s {c['sq']}"


def line(record, protocol, dtype, peer, wanted):
    ratios = records.ratios(record, protocol, peer,
                            lambda c: c["dtype"] == dtype and c["op"] == "fwd" and wanted(c))
    if not ratios:
        return None
    worst = min(ratios, key=ratios.get)
    return (f"  {peer:<20} {records.geometric_mean(ratios.values()):.3f} over {len(ratios)} cells, "
            f"worst {ratios[worst]:.3f} at {cell_name(worst)}")


def summary(record):
    for name, wanted in (("from 512 tokens on", lambda c: c["sq"] >= 512),
                         ("shorter", lambda c: c["sq"] < 512)):
        for dtype in ("bf16", "fp16"):
            for protocol in ("sustained", "burst"):
                lines = [line(record, protocol, dtype, peer, wanted) for peer in PEERS]
                lines = [text for text in lines if text]
                if lines:
                    yield f"{dtype}, {protocol}, {name}:"
                    yield from lines
    for row in record["rows"]:
        if "error" in row:
            yield f"{row['impl']} failed at {cell_name(records.cell_of(row))}: {row['error']}"


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    print("\n".join(summary(records.read(sys.argv[1]))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
