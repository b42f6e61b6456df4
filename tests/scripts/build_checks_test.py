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
		Function : _ZN6volley4cuda2v210v2_forwardILi3EEEv
        /*0010*/                   LDGSTS.E.BYPASS.128 [R3], desc[UR4][R4.64] ;
        /*0020*/                   LDSM.16.M88.4 R8, [R9] ;
        /*0030*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
"""
V2_FORWARD = GOOD[GOOD.index("\t\tFunction : _ZN6volley4cuda2v2"):]
GOOD += V2_FORWARD.replace("v2_forward", "v2_backward")
GOOD += V2_FORWARD.replace("v2_forward", "v2_query_gradients")


class Sass(unittest.TestCase):
    def check(self, text):
        return list(sass_check.violations(sass_check.opcodes(text.splitlines())))

    def test_a_good_kernel_passes(self):
        self.assertEqual(self.check(GOOD), [])

    def test_what_is_missing_is_named(self):
        for opcode in ("HGMMA", "UTMALDG", "HMMA", "LDGSTS", "LDSM"):
            found = self.check(GOOD.replace(f" {opcode}.", " NOP."))
            self.assertEqual(len(found), 1 if opcode in ("HGMMA", "UTMALDG") else 3)
            self.assertIn(opcode, found[0])

    def test_local_memory_is_refused(self):
        self.assertIn("STL", self.check(GOOD.replace("LDC R1", "STL [R1]"))[0])

    def test_no_forward_is_refused(self):
        self.assertEqual(len(self.check("")), len(sass_check.KINDS))
        self.assertEqual(len(self.check(GOOD.replace("v2_forward", "v3"))), 1)


class Cost(unittest.TestCase):
    def entries(self, **changes):
        """One of each kind; the first is changed."""
        entries = [{"source": f"/x/{instances}_64.cu", "seconds": 10.0, "bytes": 1 << 28}
                   for instances in compile_cost.BUDGETS]
        entries[0].update(changes)
        return entries

    def test_the_budget(self):
        self.assertEqual(list(compile_cost.violations(self.entries())), [])
        self.assertIn("CPU seconds", next(compile_cost.violations(self.entries(seconds=181))))
        self.assertIn("MiB", next(compile_cost.violations(self.entries(bytes=(1 << 30) + 1))))
        self.assertEqual(len(list(compile_cost.violations([]))), len(compile_cost.BUDGETS))

    def test_a_command_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            log = f"{folder}/log"
            busy = "sum(range(3_000_000)); x = bytearray(64 << 20); x[-1] = 1"
            for instances in compile_cost.BUDGETS:
                command = [sys.executable, "-c", busy, f"{folder}/{instances}.cu"]
                self.assertEqual(compile_cost.run(log, command), 0)
            self.assertEqual(compile_cost.run(log, [sys.executable, "-c", "exit(3)", "x.cu"]), 3)
            self.assertEqual(compile_cost.check(log), 0)
            lines = Path(log).read_text().splitlines()
            self.assertEqual(len(lines), len(compile_cost.BUDGETS))
            entry = compile_cost.json.loads(lines[0])
            self.assertGreater(entry["bytes"], 64 << 20)
            self.assertGreater(entry["seconds"], 0.01)

    def test_over_the_budget_is_measured_again_alone(self):
        instances, budget = next(iter(compile_cost.BUDGETS.items()))
        with tempfile.TemporaryDirectory() as folder:
            log, output = Path(folder, "log"), Path(folder, "result.o")
            output.write_text("the build's")
            write = "import sys; open(sys.argv[2], 'w'); exit(int(sys.argv[3]))"
            for status, verdict in ((0, 0), (1, 1)):  # one that fails now keeps what it took
                entries = self.entries()
                entries[0].update(seconds=budget + 1, folder=folder, command=[
                    sys.executable, "-c", write, "-o", str(output), str(status)])
                log.write_text("".join(map(lambda e: compile_cost.json.dumps(e) + "\n", entries)))
                self.assertEqual(compile_cost.check(log), verdict)
            self.assertEqual(output.read_text(), "the build's")


if __name__ == "__main__":
    unittest.main()
