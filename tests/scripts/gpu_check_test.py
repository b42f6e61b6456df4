#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What scripts/gpu_check.sh takes for explained of what racecheck reports: the function is run with
a compute-sanitizer that only prints."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu_check.sh"
SANITIZER = '#!/bin/sh\ncat "$REPORT"\nexit "$STATUS"\n'


def race(kernel="fwd_entry", read="0x8e0", writes=("0x1b160", "0x1b2f0"), kind="Read"):
    where = f"void volley::cuda::{kernel}<(int)1>(volley::cuda::FwdParams)"
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
            environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}",
                           "REPORT": f"{folder}/report", "STATUS": str(status)}
            return subprocess.run(
                ["bash", "-c", f"set -euo pipefail\nleft() {{ echo 9; }}\n{function}"
                               "explained_races program"],
                env=environment, capture_output=True, text=True)

    def test_the_first_tile_record_is(self):
        done = self.verdict(race(), race(), race(read="0x900", kernel="fwd_entry<(int)2>"),
                            summary(3))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"2 Read access at .*\+0x8e0")

    def test_nothing_is(self):
        self.assertEqual(self.verdict("[  PASSED  ]", summary(0), status=0).returncode, 0)

    def test_anything_else_is_not(self):
        for why, report in {
                "another read": [race(), race(read="0x9e0"), summary(2)],
                "a third write": [race(writes=("0x1", "0x2", "0x3")), summary(1)],
                "another kernel": [race(kernel="v2_forward"), summary(1)],
                "two writes": [race(kind="Write", read="0x1", writes=("0x2",)), summary(1)],
                "not all are shown": [race(), summary(2, shown=1)],
                "a test failed": [race(), "[  FAILED  ] 1 test", summary(1)],
                "no summary": [race()]}.items():
            self.assertEqual(self.verdict(*report).returncode, 1, why)
        self.assertEqual(self.verdict(summary(0), status=1).returncode, 1)


if __name__ == "__main__":
    unittest.main()
