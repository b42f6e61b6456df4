#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/sass_check.py and compile_cost.py find what they are for."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
sys.dont_write_bytecode = True
import compile_cost  # noqa: E402
import sass_check  # noqa: E402

GOOD = """
		Function : _ZN6volley4cuda9fwd_entryILi1EEEv
	.headerflags	@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;            /* 0x00000a00ff017b82 */
        /*1a30*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, !UPT ;
        /*1a40*/              @!P0 UTMALDG.5D [UR8], [UR6], desc[UR10] ;
		Function : _ZN6volley4cuda10fill_entryE
        /*0000*/                   STL [R1], R2 ;
"""


class Sass(unittest.TestCase):
    def check(self, text):
        return list(sass_check.violations(sass_check.opcodes(text.splitlines())))

    def test_a_good_kernel_passes(self):
        self.assertEqual(self.check(GOOD), [])

    def test_what_is_missing_is_named(self):
        for opcode in sass_check.NEEDED:
            found = self.check(GOOD.replace(opcode, "NOP"))
            self.assertEqual(len(found), 1)
            self.assertIn(opcode, found[0])

    def test_local_memory_is_refused(self):
        self.assertIn("STL", self.check(GOOD.replace("LDC R1", "STL [R1]"))[0])

    def test_no_forward_is_refused(self):
        self.assertEqual(len(self.check("")), 1)


class Cost(unittest.TestCase):
    def entry(self, **changes):
        return {"source": f"/x/{compile_cost.INSTANCES}_64.cu", "seconds": 10.0, "bytes": 1 << 28,
                **changes}

    def test_the_budget(self):
        self.assertEqual(list(compile_cost.violations([self.entry()])), [])
        self.assertIn("CPU seconds", next(compile_cost.violations([self.entry(seconds=181)])))
        self.assertIn("MiB", next(compile_cost.violations([self.entry(bytes=(1 << 30) + 1)])))
        self.assertIn("no forward instance", next(compile_cost.violations([])))

    def test_a_command_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / compile_cost.INSTANCES
            source.parent.mkdir(parents=True)
            source = source.with_suffix(".cu")
            busy = "sum(range(3_000_000)); x = bytearray(64 << 20); x[-1] = 1"
            log = f"{folder}/log"
            self.assertEqual(compile_cost.run(log, [sys.executable, "-c", busy, str(source)]), 0)
            self.assertEqual(compile_cost.run(log, [sys.executable, "-c", "exit(3)", "x.cu"]), 3)
            self.assertEqual(compile_cost.check(log), 0)
            text = Path(log).read_text()
            self.assertEqual(text.count("\n"), 1)
            entry = compile_cost.json.loads(text)
            self.assertGreater(entry["bytes"], 64 << 20)
            self.assertGreater(entry["seconds"], 0.01)


if __name__ == "__main__":
    unittest.main()
