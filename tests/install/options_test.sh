#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# options_test.sh SOURCE_DIR SCRATCH_DIR: a build option with a value that it does not know stops
# the configuration with a sentence that names the option and what is wanted.
set -euo pipefail
source=$1 scratch=$2

refuses() {  # refuses OPTION=VALUE 'what the sentence says' [environment...]
  rm -rf "$scratch"
  if output=$(env "${@:3}" cmake -S "$source" -B "$scratch" "-D$1" 2>&1); then
    echo "cmake took $1" >&2
    exit 1
  fi
  output=$(echo $output)  # CMake wraps its lines
  if [[ $output != *"$2"* ]]; then
    echo "cmake refused $1 without saying '$2':" >&2
    echo "$output" >&2
    exit 1
  fi
  echo "$1: refused"
}

refuses VOLLEY_CUDA=maybe "VOLLEY_CUDA is 'maybe'; wanted is one of: AUTO, ON, OFF."
refuses VOLLEY_BUILD_TESTS=perhaps "VOLLEY_BUILD_TESTS is 'perhaps'; wanted is ON or OFF."
refuses VOLLEY_SANITIZE=adress "VOLLEY_SANITIZE holds 'adress'; wanted are address, undefined"
refuses VOLLEY_SANITIZE=thread,address "thread and address exclude each other"
refuses VOLLEY_CUDA=ON "VOLLEY_CUDA is ON, but no CUDA compiler was found" CUDACXX=/nowhere/nvcc
refuses CMAKE_BUILD_TYPE=Fast "CMAKE_BUILD_TYPE is 'Fast'; wanted is one of: Debug, Release"

mkdir -p "$scratch-old"
cat >"$scratch-old/nvcc" <<'EOF'
#!/bin/sh
echo "Cuda compilation tools, release 12.2, V12.2.140"
EOF
chmod +x "$scratch-old/nvcc"
refuses CMAKE_CUDA_COMPILER="$scratch-old/nvcc" "has version 12.2.140; wanted is 12.4 or newer"
rm -rf "$scratch-old"
if command -v nvcc >/dev/null; then
  refuses "CMAKE_CUDA_ARCHITECTURES=80;90" "is '80;90'; wanted is a list with 90a"
fi
rm -rf "$scratch"
