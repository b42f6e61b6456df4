#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reads the machine code of the built kernels and fails on what they must not be:

    scripts/sass_check.py build/release/src/libvolley.so

a Hopper forward without HGMMA (the matrix products of a warpgroup) or UTMALDG (TMA loads), or one
that touches local memory (LDL, STL); a V2 kernel without HMMA (mma.sync), LDGSTS (cp.async) or
LDSM (ldmatrix). A library that lacks kernels of a kind fails too: it proves nothing. Needs
cuobjdump and nvdisasm, which scripts/setup.sh --cuda puts into build/sass-tools.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FUNCTION = re.compile(r"^\s*Function : (\S+)")
OPCODE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)")
# A part of the kernels' names (src/cuda/*/instance.cuh), what each must and must not have.
KINDS = {
    "Hopper forward": ("fwd_entry", ("HGMMA", "UTMALDG"), ("LDL", "STL")),
    "V2 forward": ("v2_forward", ("HMMA", "LDGSTS", "LDSM"), ()),
    "V2 backward": ("v2_backward", ("HMMA", "LDGSTS", "LDSM"), ()),
    "V2 dq by queries": ("v2_query_gradients", ("HMMA", "LDGSTS", "LDSM"), ()),
}


def opcodes(lines):
    """{kernel: {opcode: how often}}"""
    kernels, current = {}, None
    for line in lines:
        if match := FUNCTION.match(line):
            current = kernels.setdefault(match[1], collections.Counter())
        elif current is not None and (match := OPCODE.match(line)):
            current[match[1]] += 1
    return kernels


def violations(kernels):
    for kind, (part, needed, forbidden) in KINDS.items():
        own = {name: found for name, found in kernels.items() if part in name}
        for name, found in own.items():
            yield from (f"{name} has no {opcode}" for opcode in needed if not found[opcode])
            yield from (f"{name} has {found[opcode]} {opcode}: it uses local memory"
                        for opcode in forbidden if found[opcode])
        if not own:
            yield f"none of {len(kernels)} kernels is a {kind} ({part})"


def disassemble(library):
    places = os.pathsep.join([os.environ.get("PATH", ""), str(ROOT / "build/sass-tools"),
                              "/usr/local/cuda/bin"])
    tool = shutil.which("cuobjdump", path=places)
    if tool is None:
        sys.exit("sass_check.py: no cuobjdump; scripts/setup.sh --cuda installs one")
    done = subprocess.run([tool, "-sass", library], capture_output=True, text=True,
                          env={**os.environ, "PATH": places})
    if done.returncode != 0:
        sys.exit(f"sass_check.py: cuobjdump failed: {done.stderr.strip()}")
    return done.stdout.splitlines()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    kernels = opcodes(disassemble(sys.argv[1]))
    found = list(violations(kernels))
    print("\n".join(found), end="\n" if found else "")
    for kind, (part, needed, _) in KINDS.items():
        for opcode in needed:
            counts = [k[opcode] for name, k in kernels.items() if part in name]
            print(f"{kind}: {opcode} {min(counts, default=0)} to {max(counts, default=0)} times in "
                  f"each of {len(counts)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
