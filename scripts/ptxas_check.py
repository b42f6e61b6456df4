#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reads the log of a CUDA build with -Xptxas -v, fails on what slows a kernel down in silence:

    cmake --build --preset cuda --clean-first 2>&1 | scripts/ptxas_check.py

register spills, and wgmma that ptxas serialised. A log without a single kernel fails too: it proves
nothing. The plain V2 forwards of d = 128 may park a few registers beside PV (SPARED bytes), for a
schedule that is faster than the next one without (docs/tuning.md).
"""
import re
import sys

FUNCTION = re.compile(r"Compiling entry function '([^']+)'")
SPARED = 16  # bytes
SPARED_KERNEL = re.compile(r"Compiling entry function '\w*v2_forwardILi[45]E\w*'")
SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
# ptxas says, as an info: "(C7510) Potential Performance Loss: wgmma.mma_async instructions are
# serialized due to ... in function 'name'".
SERIALIZED = re.compile(r"wgmma\.mma_async instructions are serialized")


def check(lines):
    """(kernels seen, most registers, violations)"""
    kernel, kernels, most_registers, violations, spared = "?", 0, 0, [], 0
    for line in lines:
        if match := FUNCTION.search(line):
            kernel, kernels = match[1], kernels + 1
            spared = SPARED if SPARED_KERNEL.search(line) else 0
        if (match := SPILL.search(line)) and max(int(match[1]), int(match[2])) > spared:
            violations.append(f"{kernel} spills: {match[0]}")
        if match := REGISTERS.search(line):
            most_registers = max(most_registers, int(match[1]))
        if SERIALIZED.search(line):
            violations.append(line.strip())
    return kernels, most_registers, violations


def main():
    kernels, registers, violations = check(sys.stdin)
    print("\n".join(violations), end="\n" if violations else "")
    print(f"{kernels} kernels, at most {registers} registers a thread; "
          f"{len(violations)} violations")
    if kernels == 0:
        print("no kernel in the log: was it a fresh build with -Xptxas -v?", file=sys.stderr)
    return 1 if violations or kernels == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
