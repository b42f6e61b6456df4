#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes one record of the parts that bench/compare.py wrote.

    bench/merge.py --out results/h200/forward.json PART.json...

Each process's runs get numbers of their own. A cell that a later part measured again replaces the
earlier rows. Parts from other sources, another kind of card or other versions of the software are
refused: what stands in one record must be comparable.
"""
import argparse
import sys

import record as records

MUST_AGREE = [("source", "kernel_tree"), ("machine", "device"), ("machine", "cuda"),
              ("machine", "torch")]


def merge(parts):
    """The record, or a sentence that says why there is none."""
    merged, rows, run = dict(parts[0]), {}, 0
    for part in parts:
        for section, key in MUST_AGREE:
            one, other = merged[section].get(key), part[section].get(key)
            if one != other:
                return f"{section}.{key} is {one} in one part and {other} in another"
        merged["peers"] = {**merged["peers"], **part["peers"]}
        merged["taken"] = max(merged["taken"], part["taken"])
        merged["source"] = {**merged["source"],
                            "dirty": merged["source"]["dirty"] or part["source"]["dirty"]}
        fresh, numbers = {}, {}
        for row in part["rows"]:
            if row["run"] not in numbers:
                run += 1
                numbers[row["run"]] = run
            row = {**row, "run": numbers[row["run"]]}
            fresh.setdefault(records.cell_of(row), []).append(row)
        rows.update(fresh)
    merged["rows"] = [row for cell in rows.values() for row in cell]
    return merged


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("parts", nargs="+")
    options = parser.parse_args()
    merged = merge([records.read(path) for path in options.parts])
    if isinstance(merged, str):
        print(f"merge.py: {merged}; wanted are parts of one machine and one tree", file=sys.stderr)
        return 1
    records.write(merged, options.out)
    print(f"{options.out}: {len(merged['rows'])} rows of {len(options.parts)} parts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
