#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# From a fresh clone to attention on real data: installs what a build needs, builds the command, and
# runs it on queries, keys and values of a language model, whose exact answer lies beside them.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
echo "demo: building (a minute or two)"
log=build/demo.log
mkdir -p build
if ! { cmake --preset release && cmake --build --preset release --target volley_cli; } >$log 2>&1
then
  tail -n 30 $log >&2
  echo "demo: the build failed; the whole log is $log" >&2
  exit 1
fi
echo "demo: build/release/cli/volley attend tests/data/smollm2_135m_long.safetensors"
build/release/cli/volley attend tests/data/smollm2_135m_long.safetensors
