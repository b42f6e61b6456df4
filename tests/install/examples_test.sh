#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# examples_test.sh BUILD_DIR EXAMPLES_DIR SCRATCH_DIR: installs a build, moves the installed tree,
# and builds and runs the examples against it: through find_package (shared and static) and through
# pkg-config.
set -euo pipefail
build=$1 examples=$2 scratch=$3
rm -rf "$scratch"
mkdir -p "$scratch"

cmake --install "$build" --prefix "$scratch/first" >"$scratch/install.log"
mv "$scratch/first" "$scratch/moved"
prefix=$scratch/moved
pc=$(find "$prefix" -name volley.pc)
lib=$(dirname "$(dirname "$pc")")
if grep -rlF "$scratch/first" "$prefix"; then
  echo "the files above name the prefix that they were installed to" >&2
  exit 1
fi
test -f "$(find "$prefix" -name LICENSE)"

for static in OFF ON; do
  echo "--- find_package, static $static"
  cmake -S "$examples" -B "$scratch/cmake-$static" -DCMAKE_PREFIX_PATH="$prefix" \
    -DEXAMPLES_STATIC=$static -DCMAKE_BUILD_TYPE=Release >"$scratch/configure.log"
  grep -qF "volley_DIR:PATH=$lib/" "$scratch/cmake-$static/CMakeCache.txt"
  cmake --build "$scratch/cmake-$static" >"$scratch/build.log"
  ctest --test-dir "$scratch/cmake-$static" --output-on-failure
done

if command -v pkg-config >/dev/null; then
  echo "--- pkg-config"
  export PKG_CONFIG_PATH=$lib/pkgconfig
  cc -std=c11 "$examples/c/attention.c" -o "$scratch/c" $(pkg-config --cflags --libs volley) -lm
  c++ -std=c++17 "$examples/cpp/attention.cpp" -o "$scratch/cpp" \
    $(pkg-config --cflags --libs volley)
  LD_LIBRARY_PATH=$lib "$scratch/c" | tail -1
  LD_LIBRARY_PATH=$lib "$scratch/cpp" | head -1
  cc -std=c11 "$examples/c/attention.c" -o "$scratch/c-static" $(pkg-config --cflags volley) \
    "$lib/libvolley.a" $(pkg-config --static --libs-only-L --libs-only-l volley |
      sed 's/-lvolley\b//') -pthread -lm
  "$scratch/c-static" | tail -1
fi

if [ -x "$prefix/bin/volley" ]; then
  echo "--- $("$prefix/bin/volley" --version)"
fi
