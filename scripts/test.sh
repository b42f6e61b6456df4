#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# From a fresh clone to a tested build: installs what is needed, builds the release preset with its
# tests and runs them all. Without a GPU the cuda tests are reported as skipped.
#   scripts/test.sh [CTEST ARGUMENTS...]      for example: scripts/test.sh -L unit
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
cmake --preset release
cmake --build --preset release
ctest --preset release --parallel "$(nproc)" "$@"
