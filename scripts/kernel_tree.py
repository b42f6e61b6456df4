#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints the kernel_tree of the sources: one sha256 over everything that decides what a GPU runs.

It is how a record in results/ says which sources it was taken from, also where there is no git:
include/, src/cuda/ and src/{problem,plan,run}*, in the order of their paths; each file counts with
its path, its length and its bytes. bench/compare_cpu.py takes the same of what the CPU runs.
"""
import hashlib
import sys
from pathlib import Path

CORE = ["include/**/*", "src/problem*", "src/plan*", "src/run*"]
CUDA = [*CORE, "src/cuda/**/*"]
CPU = [*CORE, "src/cpu/**/*"]


def tree(root, patterns):
    files = {path.relative_to(root).as_posix(): path
             for pattern in patterns for path in root.glob(pattern) if path.is_file()}
    digest = hashlib.sha256()
    for name in sorted(files):
        content = files[name].read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


if __name__ == "__main__":
    top = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    print(tree(top, CUDA))
