#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What scripts/gpu_check.sh takes for explained of what racecheck reports: the function is run with
a compute-sanitizer that only prints."""
import itertools
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
sys.dont_write_bytecode = True
import record_sites  # noqa: E402

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu_check.sh"
SANITIZER = '#!/bin/sh\ncat "$REPORT"\nexit "$STATUS"\n'


SITES = [f"fwd_entry {row} {at}"
         for row, at in itertools.product((1, 2), ("0x8e0", "0x900", "0x1b160", "0x1b2f0"))]


def race(kernel="fwd_entry", row=1, read="0x8e0", writes=("0x1b160", "0x1b2f0"), kind="Read"):
    where = f"void volley::cuda::{kernel}<(int){row}>(volley::cuda::FwdParams)"
    lines = [f"========= Error: Race reported between {kind} access at {where}+{read}"]
    lines += [f"=========     and Write access at {where}+{write} [32 hazards]" for write in writes]
    return "\n".join([*lines, "========= "])


def summary(errors, shown=None):
    return (f"========= RACECHECK SUMMARY: {errors if shown is None else shown} hazards displayed "
            f"({errors} errors, 0 warnings)")


class ExplainedRaces(unittest.TestCase):
    def verdict(self, *report, status=9):
        text = SCRIPT.read_text()
        begin = text.index("explained_races() {")
        function = text[begin:text.index("\n}\n", begin) + 3]
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "compute-sanitizer"
            program.write_text(SANITIZER)
            program.chmod(0o755)
            (Path(folder) / "report").write_text("\n".join(report) + "\n")
            (Path(folder) / "record_sites").write_text("\n".join(SITES) + "\n")
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}",
                           "REPORT": f"{folder}/report", "STATUS": str(status)}
            return subprocess.run(
                ["bash", "-c", f"set -euo pipefail\nleft() {{ echo 9; }}\n{function}"
                               "explained_races program"],
                env=environment, cwd=folder, capture_output=True, text=True)

    def test_tile_records_are(self):
        done = self.verdict(race(), race(), race(row=2, read="0x900"), summary(3))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("6 sites", done.stdout)

    def test_nothing_is(self):
        self.assertEqual(self.verdict("[  PASSED  ]", summary(0), status=0).returncode, 0)

    def test_anything_else_is_not(self):
        for why, report in {
                "another read": [race(), race(read="0x8e"), summary(2)],
                "another write": [race(writes=("0x1b160", "0x3")), summary(1)],
                "another row": [race(row=3), summary(1)],
                "another kernel": [race(kernel="v2_forward"), summary(1)],
                "two writes": [race(kind="Write"), summary(1)],
                "not all are shown": [race(), summary(2, shown=1)],
                "a test failed": [race(), "[  FAILED  ] 1 test", summary(1)],
                "no summary": [race()]}.items():
            self.assertEqual(self.verdict(*report).returncode, 1, why)
        self.assertEqual(self.verdict(summary(0), status=1).returncode, 1)


class RecordSites(unittest.TestCase):
    def test_sixteen_bytes_at_a_time_in_a_hopper_forward(self):
        found = record_sites.sites("""
            Function : _ZN6volley4cuda9fwd_entryILi4EEEvNS0_9FwdParamsE
        /*08e0*/                   LDS.128 R4, [UR4+0x280d0] ;
        /*08f0*/                   LDS R4, [UR4+0x28170] ;
        /*0900*/                   STS.128 [R4+0x200], RZ ;
        /*1b160*/              @P0 STS.128 [UR19+0x280f0], R4 ;
            Function : _ZN6volley4cuda2v210v2_forwardILi0EEEvNS1_13ForwardParamsE
        /*0010*/                   LDS.128 R4, [UR4] ;""".split("\n"))
        self.assertEqual(list(found), ["fwd_entry 4 0x8e0", "fwd_entry 4 0x1b160"])


if __name__ == "__main__":
    unittest.main()
