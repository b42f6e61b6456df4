# SPDX-License-Identifier: BSD-3-Clause
"""The scripts of examples/python run, and find what they claim: each ends in assertions."""
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples/python").glob("*.py"))


def test_there_are_examples():
    assert len(EXAMPLES) == 5


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_example(script):
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout
