#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Says whether the record of the last run on a GPU (results/h200, written by scripts/gpu_check.sh)
# was taken from the sources as they are. A stale or missing record is a warning, never a failure:
# the machine that runs this may have no GPU to renew it.
set -euo pipefail
cd "$(dirname "$0")/.."

now=$(scripts/kernel_tree.py)
shopt -s nullglob
records=()
for file in results/h200/*.json; do
  if grep -q '"kernel_tree"' "$file"; then records+=("$file"); fi
done
if [ ${#records[@]} = 0 ]; then
  echo "WARNING: no GPU record in results/h200"
fi
for record in "${records[@]}"; do
  then=$(grep -oE '"kernel_tree": *"[0-9a-f]{64}"' "$record" | grep -oE '[0-9a-f]{64}' || true)
  if [ "$then" = "$now" ]; then
    echo "$record: matches the sources"
  else
    echo "WARNING: $record: taken from other sources (${then:0:12}, now ${now:0:12})"
  fi
done
