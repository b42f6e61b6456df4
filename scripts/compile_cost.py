#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What compiling the kernels costs, measured while they are built, and held to a budget.

    scripts/compile_cost.py run LOG COMMAND...    a compiler launcher: runs it, adds a line to LOG
    scripts/compile_cost.py check LOG             reports; exits 1 over the budget

The budget: all Hopper forwards (src/cuda/instances/fwd*) within 3 CPU minutes, all V2 kernels (v2*)
within 2, and 1 GB a process. It is a launcher with
CMAKE_CUDA_COMPILER_LAUNCHER="$PWD/scripts/compile_cost.py;run;LOG" in the environment of a fresh
configuration. A build's jobs share cores and caches, so its CPU seconds say something about its
neighbours, too: sources that went over their budget are compiled once more, one at a time, before
they are judged.
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# Sources -> CPU seconds that they may take together.
BUDGETS = {"src/cuda/instances/fwd": 180, "src/cuda/instances/v2": 120}
PROCESS_BYTES = 1 << 30


def measured(command, **options):
    """Exit status, CPU seconds, bytes of the largest process below"""
    process = subprocess.Popen(command, **options)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def run(log, command):
    status, seconds, size = measured(command)
    sources = [word for word in command if word.endswith(".cu")]
    if sources and status == 0:
        line = {"source": sources[-1], "seconds": seconds, "bytes": size, "command": command,
                "folder": os.getcwd()}
        with open(log, "a") as file:
            file.write(json.dumps(line) + "\n")
    return status


def measure_again(entry):
    """By itself, without a compiler cache; its output goes nowhere."""
    with tempfile.TemporaryDirectory() as folder:
        command = list(entry["command"])
        for option in ("-o", "-MF"):
            if option in command:
                command[command.index(option) + 1] = f"{folder}/output{option}"
        status, seconds, _ = measured(command, cwd=entry["folder"], stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL,
                                      env={**os.environ, "CCACHE_DISABLE": "1"})
    if status == 0:
        entry["seconds"] = min(entry["seconds"], seconds)


def own(entries, instances):
    return [entry for entry in entries if instances in entry["source"]]


def spent(entries, instances):
    """CPU seconds, None without an entry"""
    seconds = [entry["seconds"] for entry in own(entries, instances)]
    return sum(seconds) if seconds else None


def violations(entries):
    for instances, budget in BUDGETS.items():
        seconds = spent(entries, instances)
        if seconds is None:
            yield f"no {instances}* in the log: was it a fresh build with this launcher?"
        elif seconds > budget:
            yield f"{instances}* took {seconds:.0f} CPU seconds, at most {budget} are wanted"
    for entry in entries:
        if entry["bytes"] > PROCESS_BYTES:
            yield (f"{entry['source']} took a process of {entry['bytes'] / 2**20:.0f} MiB, at most "
                   f"{PROCESS_BYTES / 2**20:.0f} are wanted")


def check(log):
    lines = Path(log).read_text().splitlines() if Path(log).exists() else []
    latest = {entry["source"]: entry for entry in map(json.loads, lines)}
    entries = list(latest.values())
    for instances, budget in BUDGETS.items():
        if (spent(entries, instances) or 0) > budget:
            print(f"{instances}* took {spent(entries, instances):.0f} CPU s of {budget} beside "
                  "other jobs; now one at a time")
            for entry in own(entries, instances):
                measure_again(entry)
    for entry in sorted(entries, key=lambda e: -e["seconds"]):
        print(f"{entry['seconds']:6.1f} CPU s {entry['bytes'] / 2**20:6.0f} MiB  "
              f"{os.path.basename(entry['source'])}")
    for instances, budget in BUDGETS.items():
        print(f"{spent(entries, instances) or 0:6.1f} CPU s of {budget} for {instances}*")
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
