#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Runs clang-tidy (.clang-tidy) on C++ sources of the dev preset: those changed since main's last
# common commit, or all of them.
#   scripts/tidy.sh [--all | FILE...]
set -euo pipefail
cd "$(dirname "$0")/.."

build=build/dev
[ -f $build/compile_commands.json ] || cmake --preset dev >/dev/null
case ${1:-} in
  --all) files=$(git ls-files 'src/*.cpp' 'check/*.cpp' 'cli/*.cpp') ;;
  "")
    base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main)
    files=$(git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp' 'check/*.cpp' 'cli/*.cpp')
    ;;
  *) files=$* ;;
esac
# Only what the build compiles has a command line (sources of CUDA do not, here).
compiled=()
for file in $files; do
  if grep -qF "\"file\": \"$PWD/$file\"" $build/compile_commands.json; then compiled+=("$file"); fi
done
if [ ${#compiled[@]} = 0 ]; then
  echo "tidy: nothing to look at"
  exit 0
fi
echo "tidy: ${#compiled[@]} files"
printf '%s\0' "${compiled[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy --quiet -p $build
