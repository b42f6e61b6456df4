# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the Python package, as it is installed: scripts/python_test.sh runs them on the wheel.

For a build that is not installed, from the top of the tree:
    PYTHONPATH=python LIBVOLLEY=build/release/src/libvolley.so pytest
"""
