# SPDX-License-Identifier: BSD-3-Clause
"""`python -m volley` and the script `volley`: the command (docs/cli.md) that this package brings.

    python -m volley doctor
"""
from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    command = Path(__file__).with_name("bin") / "volley"
    if not command.exists():
        sys.exit(f"volley: {command} is not there: the package was not installed from a wheel")
    os.execv(command, ["volley", *sys.argv[1:]])


if __name__ == "__main__":
    main()
