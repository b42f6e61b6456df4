#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Lists where the Hopper forwards read and write tile records in shared memory, a line each:

    scripts/record_sites.py build/cuda/src/libvolley.so
    fwd_entry 4 0x8e0

the kernel's row and the instruction's place in it. Beside zeros where rows are cleared, records are
all that these kernels read and write 16 bytes at a time, so the sites are their LDS.128, and their
STS.128 of registers. compute-sanitizer's racecheck may name these and no others (docs/forward.md):
scripts/gpu_check.sh compares.
"""
import re
import sys

import sass_check

ENTRY = re.compile(r"fwd_entryILi(\d+)E")
ACCESS = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?"
                    r"(?:LDS\.128 |STS\.128 \[[^\]]*\], R\d)")


def sites(lines):
    row = None
    for line in lines:
        if match := sass_check.FUNCTION.match(line):
            entry = ENTRY.search(match[1])
            row = entry[1] if entry else None
        elif row is not None and (match := ACCESS.match(line)):
            yield f"fwd_entry {row} {int(match[1], 16):#x}"


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    found = list(sites(sass_check.disassemble(sys.argv[1])))
    if not found:
        print(f"record_sites.py: {sys.argv[1]} has no Hopper forward that reads a tile record",
              file=sys.stderr)
        return 1
    print("\n".join(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
