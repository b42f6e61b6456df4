#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Formats every C, C++ and CUDA source with clang-format 14, Debian 12's: other versions differ.
#   scripts/format.sh           rewrites
#   scripts/format.sh --check   changes nothing, exits 1 when something would change
set -euo pipefail
cd "$(dirname "$0")/.."

tool=$(command -v clang-format-14 || command -v clang-format) || {
  echo "format.sh: no clang-format; scripts/setup.sh --dev installs it" >&2
  exit 1
}
version=$("$tool" --version | grep -oE 'version [0-9]+' | head -1)
if [ "$version" != "version 14" ]; then
  echo "format.sh: $tool is $version; wanted is version 14" >&2
  exit 1
fi
mode=(-i)
[ "${1:-}" = --check ] && mode=(--dry-run -Werror)
git ls-files -z -co --exclude-standard '*.h' '*.hpp' '*.c' '*.cpp' '*.cu' '*.cuh' |
  xargs -0 "$tool" "${mode[@]}"
