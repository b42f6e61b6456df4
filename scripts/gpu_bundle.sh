#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Makes build/gpu-bundle: all that scripts/gpu_check.sh needs on a machine with a GPU, from a build
# of the cuda preset: stripped binaries, the library, benchmark, data, and source.json, which says
# what sources they were made from. Nothing has to be installed or fetched there. Its archive beside
# it, gpu-bundle.tar.xz, stays under 24 MB.
#
#   gpu_bundle.sh [--experiments]   also the library with the rows that gpu_check.sh rows compares
set -euo pipefail
cd "$(dirname "$0")/.."

cmake --preset cuda >/dev/null
cmake --build --preset cuda --target volley volley_cli cuda_tests >build/gpu-bundle.log 2>&1 || {
  tail -n 30 build/gpu-bundle.log >&2
  exit 1
}
bundle=build/gpu-bundle
rm -rf $bundle
mkdir -p $bundle/{bin,lib,data}
for binary in build/cuda/cli/volley $(cat build/cuda/cuda_tests.txt); do
  strip -o "$bundle/bin/$(basename "$binary")" "$binary"
done
strip --strip-unneeded -o $bundle/lib/libvolley.so build/cuda/src/libvolley.so
if [ "${1:-}" = --experiments ]; then
  cmake --preset cuda -B build/cuda-experiments -DVOLLEY_EXPERIMENTS=ON >/dev/null
  cmake --build build/cuda-experiments --target volley >>build/gpu-bundle.log 2>&1
  strip --strip-unneeded -o $bundle/lib/libvolley_experiments.so \
    build/cuda-experiments/src/libvolley.so
fi
scripts/record_sites.py $bundle/lib/libvolley.so >$bundle/record_sites
cp -r scripts/gpu_check.sh bench $bundle/
rm -rf $bundle/bench/__pycache__
cp tests/data/*.safetensors $bundle/data/

dirty=false
[ -z "$(git status --porcelain)" ] || dirty=true
cuda=$(grep -oE 'CMAKE_CUDA_COMPILER_VERSION "[0-9.]+' \
  build/cuda/CMakeFiles/*/CMakeCUDACompiler.cmake | grep -oE '[0-9.]+$')
cat >$bundle/source.json <<EOF
{"commit": "$(git rev-parse HEAD)", "dirty": $dirty, "kernel_tree": "$(scripts/kernel_tree.py)"}
EOF
echo "$cuda" >$bundle/cuda_version

# The kernels are in each test program: a dictionary that reaches back to the last one.
tar -C build -c gpu-bundle | xz --lzma2=preset=1,dict=256MiB >$bundle.tar.xz
size=$(du -sk $bundle.tar.xz | cut -f1)
echo "$bundle.tar.xz: $((size / 1024)) MB, CUDA $cuda"
if [ "$size" -gt $((24 * 1024)) ]; then
  echo "gpu_bundle.sh: $bundle.tar.xz has $size KiB; wanted is at most $((24 * 1024))" >&2
  exit 1
fi
