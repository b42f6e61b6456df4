#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the bench's programs make of records: ratios within one run, merged parts, and the page that
is checked against the record. Synthetic records; no torch."""
import copy
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
sys.dont_write_bytecode = True
import docs  # noqa: E402
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

    def test_another_implementation_and_its_misaligned_variant(self):
        v2 = record([{**row("fa2", 512, 3.0, 1), "op": "bwd"},
                     {**row("volley_v2", 512, 2.0, 1), "op": "bwd"},
                     {**row("volley_v2", 512, 4.0, 1), "op": "bwd", "variant": "misaligned"}])
        self.assertEqual(records.ratios(v2, "sustained", "fa2"), {})
        for ours, ratio in (("volley_v2", 1.5), ("volley_v2/misaligned", 0.75)):
            found = records.ratios(v2, "sustained", "fa2", ours=ours)
            self.assertEqual(list(found.values()), [ratio])
            text = "\n".join(summary.summary(v2, ours))
            self.assertRegex(text, f"bwd bf16, sustained.*\n  fa2 +{ratio:.3f} over 1 cells")

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


class Docs(unittest.TestCase):
    """The tables of docs/, in a tree of their own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "docs").mkdir()
        (self.root / "results" / "h200").mkdir(parents=True)
        for name, (document, *_) in docs.SECTIONS.items():
            with (self.root / document).open("a") as file:  # some documents have several
                file.write("before\n{}\n{}\nafter".format(*docs.markers(name)))
        self.write()

    def write(self):
        for name, (document, *_) in docs.SECTIONS.items():
            file = self.root / document
            text = docs.replaced(file.read_text(), name, docs.section(name, self.root))
            self.assertTrue(text.startswith("before\n") and text.endswith("\nafter"))
            file.write_text(text)

    def record(self, name, text):
        """Writes a record; the section that it makes, after it was said to be outdated."""
        document, path, *_ = docs.SECTIONS[name]
        (self.root / path).write_text(text)
        self.assertEqual(list(docs.outdated(self.root)),
                         [f"{document}'s section '{name}' is not that of {path}"])
        self.write()
        self.assertEqual(list(docs.outdated(self.root)), [])
        return (self.root / document).read_text()

    def test_without_a_record_the_program_is_named(self):
        self.assertEqual(list(docs.outdated(self.root)), [])
        self.assertIn("Not recorded yet: `bench/profile.sh` writes",
                      docs.section("profile", self.root))
        (self.root / "docs/numerics.md").write_text("no markers")
        self.assertEqual(len(list(docs.outdated(self.root))), 1)

    def test_techniques_stand_beside_the_first(self):
        failed = {**row("fa3", 1024, 1, 2), "error": "no"}
        del failed["tflops"]
        rows = [row("full kernel", 512, 1, 1), row("one stage", 512, 1.25, 1),
                row("full kernel", 1024, 2, 2), row("one stage", 1024, 2, 2), failed]
        text = self.record("techniques", json.dumps(record(rows)))
        for line in ("| bf16, d = 64, full | 512 | 1k |", "| full kernel | 100 | 50 |",
                     "| one stage | 80 (-20 %) | 50 (+0 %) |",
                     "| FlashAttention-3 | failed | failed |"):
            self.assertIn(line, text)

    def test_peers_stand_beside_ours_in_both_protocols(self):
        text = self.record("peers", json.dumps(PART))
        self.assertIn("| bf16, from 512 tokens on, sustained, 2 cells "
                      "| 1.095x (1.000x, d 64 full 1k) | - | 0.900x (0.900x, d 64 full 512) | - |",
                      text)
        self.assertNotIn("burst", text)  # no peer ran
        self.assertNotIn("below", text)

    def test_v2_is_judged_from_512_tokens_on(self):
        def cell(op, s, run, fa2, misaligned=2.0):
            rows = [row("fa2", s, fa2, run), row("volley_v2", s, 1.0, run),
                    {**row("volley_v2", s, misaligned, run), "variant": "misaligned"}]
            return [{**r, "op": op} for r in rows]

        def of_layout(op, run, layout, ms):
            return {**row("volley_v2", 1024, ms, run), "op": op, "variant": layout}

        rows = [*cell("fwd", 256, 1, 0.5, 8.0), *cell("fwd", 512, 2, 1.1),
                *cell("fwd", 1024, 3, 1.2),
                *cell("bwd", 1024, 4, 0.9, 1.25)]
        for op, run in (("fwd", 3), ("bwd", 4)):
            rows += [of_layout(op, run, "bhsd", 1.0), of_layout(op, run, "qkv", 1.25),
                     of_layout(op, run, "strided", 4.0)]
        text = self.record("beside FlashAttention-2", json.dumps(record(rows)))
        for line in ("| bf16, d = 64, full | 100 | 100 | 100 | 1.15x | 1.10x | 0.50x at least |",
                     "The 2 cells of the forward from 512 tokens on: 1.149x FlashAttention-2 in "
                     "the geometric mean, 1.100x in the worst.",
                     "The 1 cells of the forward below 512 tokens: 0.500x",
                     "| bf16, d = 64, full | 100 | 0.90x | 0.90x | 0.80x at least |",
                     "forward, bf16, d = 64, full, 1k | backward, bf16, d = 64, full, 1k |",
                     "| q, k, v slices of one tensor | 0.80x | 0.80x |"):
            self.assertIn(line, text)
        self.assertRegex(text, r"elements of a row apart.* \| 0.25x \| 0.25x \|")

    def test_what_differs_is_in_the_title(self):
        again = {**row("exact maximum", 512, 1, 1), "variant": "q and k of 8"}
        text = self.record("worst case", json.dumps(record([again])))
        self.assertIn("| bf16, d = 64, full, q and k of 8 | 512 |", text)

    def test_ncus_values_are_its_own(self):
        text = self.record("profile",
                           '"problem","ID","gpu__time_duration.sum","dram__bytes_read.sum"\n'
                           '"","","us","Mbyte"\n"bf16 d 64 full","0","12.5","7"\n'
                           '"bf16 d 64 causal","0","8.5","6"\n')
        self.assertIn("| | | bf16 d 64 full | bf16 d 64 causal |", text)
        self.assertIn("| duration | `gpu__time_duration.sum` | 12.5 us | 8.5 us |", text)

    def test_a_metric_that_ncu_knows_by_two_names_stands_once(self):
        names = [name for name, words in docs.METRICS.items() if words == "TMA loads"]
        self.assertEqual(len(names), 2)
        text = self.record("profile", '"problem","{}","{}"\n"","inst","inst"\n"a","1","1"\n'
                           .format(*names))
        self.assertEqual(text.count("TMA loads"), 1)

    def test_metrics_that_are_asked_for_have_words(self):
        asked = Path(docs.__file__).with_name("profile.sh").read_text().split("wanted='")[1]
        self.assertEqual(asked.split("'")[0].split("\n"), list(docs.METRICS))

    def test_the_timeline_is_what_its_program_draws(self):
        program = Path(__file__).resolve().parents[2] / "docs" / "timeline.py"
        self.assertEqual(subprocess.run([program, "--check"], capture_output=True).returncode, 0)


if __name__ == "__main__":
    unittest.main()
