#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# From a fresh clone to a tested build: installs what is needed, builds the release preset with its
# tests and runs them all. Without a GPU the cuda tests are reported as skipped.
#   scripts/test.sh [--python] [CTEST ARGUMENTS...]      for example: scripts/test.sh -L unit
#     --python    the Python package, too: scripts/python_test.sh, which takes PyTorch from PyPI
set -euo pipefail
cd "$(dirname "$0")/.."

python=no
if [ "${1:-}" = --python ]; then
  python=yes
  shift
fi
scripts/setup.sh $([ $python = no ] || echo --python)
cmake --preset release
cmake --build --preset release
ctest --preset release --parallel "$(nproc)" "$@"
if [ $python = yes ]; then scripts/python_test.sh; fi
