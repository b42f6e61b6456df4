#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What compiling the kernels costs, measured while they are built, and held to a budget.

    scripts/compile_cost.py run LOG COMMAND...    a compiler launcher: runs it, adds a line to LOG
    scripts/compile_cost.py check LOG             reports; exits 1 over the budget

The budget: all forward instances (src/cuda/instances/fwd*) within 3 CPU minutes, and 1 GB a
process. It is a launcher with CMAKE_CUDA_COMPILER_LAUNCHER="$PWD/scripts/compile_cost.py;run;LOG"
in the environment of a fresh configuration.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

INSTANCES = "src/cuda/instances/fwd"
CPU_SECONDS = 180
PROCESS_BYTES = 1 << 30


def run(log, command):
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    sources = [word for word in command if word.endswith(".cu")]
    if sources and process.returncode == 0:
        line = {"source": sources[-1], "seconds": usage.ru_utime + usage.ru_stime,
                "bytes": usage.ru_maxrss * 1024}  # of the largest process below
        with open(log, "a") as file:
            file.write(json.dumps(line) + "\n")
    return process.returncode


def violations(entries):
    instances = [e for e in entries if INSTANCES in e["source"]]
    seconds = sum(e["seconds"] for e in instances)
    if not instances:
        yield "no forward instance in the log: was it a fresh build with this launcher?"
    if seconds > CPU_SECONDS:
        yield (f"the forward instances took {seconds:.0f} CPU seconds, at most {CPU_SECONDS} are "
               "wanted")
    for entry in entries:
        if entry["bytes"] > PROCESS_BYTES:
            yield (f"{entry['source']} took a process of {entry['bytes'] / 2**20:.0f} MiB, at most "
                   f"{PROCESS_BYTES / 2**20:.0f} are wanted")


def check(log):
    lines = Path(log).read_text().splitlines() if Path(log).exists() else []
    latest = {entry["source"]: entry for entry in map(json.loads, lines)}
    entries = list(latest.values())
    for entry in sorted(entries, key=lambda e: -e["seconds"]):
        print(f"{entry['seconds']:6.1f} CPU s {entry['bytes'] / 2**20:6.0f} MiB  "
              f"{os.path.basename(entry['source'])}")
    total = sum(e["seconds"] for e in entries if INSTANCES in e["source"])
    print(f"{total:6.1f} CPU s for the forward instances")
    found = list(violations(entries))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


def main():
    if len(sys.argv) >= 4 and sys.argv[1] == "run":
        return run(sys.argv[2], sys.argv[3:])
    if len(sys.argv) == 3 and sys.argv[1] == "check":
        return check(sys.argv[2])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
