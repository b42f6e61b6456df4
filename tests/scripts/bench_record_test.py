#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the bench's programs make of records: ratios within one run, merged parts, and the page that
is checked against the record. Synthetic records; no torch."""
import copy
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
sys.dont_write_bytecode = True
import merge  # noqa: E402
import page  # noqa: E402
import record as records  # noqa: E402
import summary  # noqa: E402


def row(impl, s, ms, run, protocol="sustained", d=64):
    return {"op": "fwd", "dtype": "bf16", "mode": "default", "variant": "plain", "d": d, "dv": d,
            "hq": 4, "hk": 4, "b": 2, "sq": s, "sk": s, "causal": False, "impl": impl,
            "protocol": protocol, "ms": ms, "tflops": 100 / ms, "run": run}


def record(rows):
    return {"schema": 1, "machine": {"device": "G", "cuda": "13.0", "torch": "2"},
            "source": {"commit": "c", "dirty": False, "kernel_tree": "t" * 64},
            "taken": "2026-01-01T00:00:00Z", "peers": {"fa3": "3", "cudnn": "9"}, "rows": rows}


PART = record([row("volley", 512, 1.0, 1), row("fa3", 512, 1.2, 1), row("cudnn", 512, 0.9, 1),
               row("volley", 1024, 2.0, 2), row("fa3", 1024, 2.0, 2),
               row("volley", 512, 5.0, 1, "burst")])


class Ratios(unittest.TestCase):
    def test_the_peers_time_over_ours(self):
        found = records.ratios(PART, "sustained", "fa3")
        self.assertEqual(sorted(found.values()), [1.0, 1.2])
        self.assertAlmostEqual(records.geometric_mean(found.values()), 1.2 ** 0.5)
        best = records.ratios(PART, "sustained", records.BEST)
        self.assertEqual(sorted(best.values()), [0.9, 1.0])
        self.assertEqual(records.ratios(PART, "burst", "fa3"), {})

    def test_never_across_runs(self):
        apart = record([row("volley", 512, 1.0, 1), row("fa3", 512, 1.2, 2)])
        self.assertEqual(records.ratios(apart, "sustained", "fa3"), {})

    def test_the_summary_names_the_worst_cell_and_failures(self):
        part = copy.deepcopy(PART)
        failed = {**row("fa4", 512, 1, 1), "error": "no such kernel"}
        for key in ("ms", "protocol", "tflops"):
            del failed[key]
        part["rows"].append(failed)
        text = "\n".join(summary.summary(part))
        self.assertRegex(text, "fa3 +1.095 over 2 cells, worst 1.000 at bf16 d 64 full s 1024")
        self.assertIn("fa4 failed at bf16 d 64 full s 512: no such kernel", text)


class Merge(unittest.TestCase):
    def test_runs_get_numbers_of_their_own(self):
        other = record([row("volley", 512, 1.0, 1, d=128), row("fa3", 512, 1.3, 1, d=128)])
        merged = merge.merge([PART, other])
        self.assertEqual(len(merged["rows"]), len(PART["rows"]) + 2)
        self.assertEqual(sorted({r["run"] for r in merged["rows"]}), [1, 2, 3])
        self.assertEqual(len(records.ratios(merged, "sustained", "fa3")), 3)

    def test_a_cell_measured_again_replaces_the_first(self):
        again = record([row("volley", 512, 3.0, 1), row("fa3", 512, 3.0, 1)])
        merged = merge.merge([PART, again])
        ms = {r["ms"] for r in merged["rows"] if r["sq"] == 512}
        self.assertEqual(ms, {3.0})
        self.assertEqual(len([r for r in merged["rows"] if r["sq"] == 1024]), 2)

    def test_what_cannot_be_compared_is_refused(self):
        for section, key in merge.MUST_AGREE:
            other = copy.deepcopy(PART)
            other[section][key] = "other"
            self.assertIn(f"{section}.{key} is", merge.merge([PART, other]))


class Page(unittest.TestCase):
    README = f"# V\n{page.BEGIN}\nold\n{page.END}\nmore\n"

    def test_the_section_has_the_numbers(self):
        text = page.section(PART)
        self.assertIn("| bf16, 64, full | 100 | 50 | 1.10x | 0.90x |", text)
        self.assertIn("FlashAttention-3 (3), cuDNN (9)", text)

    def test_what_is_outdated_is_said(self):
        written = page.replaced(self.README, page.section(PART))
        self.assertTrue(written.startswith("# V\n") and written.endswith("\nmore\n"))
        drawn = page.digest(PART)
        self.assertEqual(list(page.outdated(PART, written, drawn)), [])
        newer = copy.deepcopy(PART)
        newer["rows"][0]["tflops"] = 77.0
        self.assertEqual(len(list(page.outdated(newer, written, drawn))), 2)
        self.assertEqual(len(list(page.outdated(PART, "no markers", drawn))), 1)


if __name__ == "__main__":
    unittest.main()
