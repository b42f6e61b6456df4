# SPDX-License-Identifier: BSD-3-Clause
"""scripts/ptxas_check.py passes a clean log; fails a spill, serialised wgmma and an empty log."""
import subprocess
import sys
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "ptxas_check.py"
LOG = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'forward' for 'sm_90a'
ptxas info    : Function properties for forward
    0 bytes stack frame, %d bytes spill stores, %d bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 400 bytes cmem[0]
"""
SERIALIZED = ("ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions "
              "are serialized due to insufficient register resources in function 'forward'\n")


def check(log):
    done = subprocess.run([sys.executable, SCRIPT], input=log, capture_output=True, text=True)
    return done.returncode, done.stdout


class PtxasCheck(unittest.TestCase):
    def test_a_clean_log_passes(self):
        code, output = check(LOG % (0, 0))
        self.assertEqual(code, 0, output)
        self.assertIn("1 kernels, at most 168 registers", output)

    def test_spills_fail(self):
        for spill in [(4, 0), (0, 4)]:
            code, output = check(LOG % spill)
            self.assertEqual(code, 1)
            self.assertIn("forward spills", output)

    def test_only_the_v2_forwards_of_d_128_may_park_a_little(self):
        for row, spared in ((2, 0), (4, 16), (5, 16), (45, 0)):
            log = LOG.replace("'forward' for 'sm_90a'",
                              f"'_ZN2v210v2_forwardILi{row}EEEv' for 'sm_90'")
            self.assertEqual(check(log % (spared, spared))[0], 0)
            self.assertEqual(check(log % (0, spared + 4))[0], 1)

    def test_serialised_wgmma_fails(self):
        self.assertEqual(check(SERIALIZED + LOG % (0, 0))[0], 1)

    def test_an_empty_log_fails(self):
        self.assertEqual(check("")[0], 1)


if __name__ == "__main__":
    unittest.main()
