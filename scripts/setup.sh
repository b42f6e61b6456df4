#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Installs what a build of Volley needs on Debian 12 or Ubuntu 24.04, as root or through sudo. Says
# what it does; does nothing that is done already.
#
#   scripts/setup.sh          compiler, CMake, Ninja, the libraries
#   scripts/setup.sh --cuda   also a CUDA 13.0 compiler, from PyPI, into build/cuda-toolkit, unless
#                             the machine has a toolkit (--cuda-from-pypi: even then), and what
#                             scripts/sass_check.py needs, into build/sass-tools
#   scripts/setup.sh --python also what scripts/python_test.sh needs: Python's headers and venv
#   scripts/setup.sh --dev    also the tools of scripts/format.sh, tidy.sh and bare_debian_test.sh
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '6,12s/^# *//p' "$0"; }

packages=(g++ cmake ninja-build pkg-config libfmt-dev nlohmann-json3-dev libcli11-dev libgtest-dev
  libhwy-dev)
cuda=no
for argument in "$@"; do
  case $argument in
    --cuda) cuda=missing packages+=(python3-venv) ;;
    --cuda-from-pypi) cuda=pypi packages+=(python3-venv) ;;
    --python) packages+=(python3-dev python3-venv) ;;
    --dev) packages+=(clang-format clang-tidy debootstrap python3 ccache) ;;
    --help) usage; exit 0 ;;
    *) echo "setup.sh: unknown argument '$argument'; see --help" >&2; exit 2 ;;
  esac
done

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else
    echo "setup.sh: needs root or sudo to run: $*" >&2
    exit 1
  fi
}

install_packages() {
  local missing=()
  for package in "$@"; do
    [ "$(dpkg-query -Wf '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      missing+=("$package")
  done
  [ ${#missing[@]} = 0 ] && return
  echo "setup: installing ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 \
    --no-install-recommends \
    "${missing[@]}" >/dev/null
}

# The wheels lay a toolkit out as nvcc wants it, but for the names lib64, libcudart.so, libnvrtc.so,
# which the linker and CMake look for. cccl has version numbers of its own.
install_cuda_from_pypi() {
  local venv=$PWD/build/cuda-venv link=$PWD/build/cuda-toolkit root
  if [ -x "$link/bin/nvcc" ]; then return; fi
  echo "setup: taking the CUDA 13.0 compiler from PyPI into build/cuda-toolkit (500 MB)"
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check --no-deps \
    'nvidia-cuda-nvcc==13.0.*' 'nvidia-nvvm==13.0.*' 'nvidia-cuda-crt==13.0.*' \
    'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*' 'nvidia-cuda-nvrtc==13.0.*'
  root=$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13)
  ln -sfn lib "$root/lib64"
  ln -sfn libcudart.so.13 "$root/lib/libcudart.so"
  ln -sfn libnvrtc.so.13 "$root/lib/libnvrtc.so"
  ln -sfn "$root" "$link"
  "$link/bin/nvcc" --version | grep -o 'release [0-9.]*' | sed 's/^/setup: CUDA /'
}

# Disassemblers, which a toolkit may lack. They read what older compilers made, too.
install_sass_tools() {
  if [ -x build/sass-tools/cuobjdump ] || command -v cuobjdump >/dev/null ||
    [ -x /usr/local/cuda/bin/cuobjdump ]; then return; fi
  echo "setup: taking cuobjdump and nvdisasm from PyPI into build/sass-tools (7 MB)"
  python3 -m venv build/sass-venv
  build/sass-venv/bin/pip install -q --disable-pip-version-check --no-deps \
    'nvidia-cuda-cuobjdump==13.*' 'nvidia-cuda-nvdisasm==13.*'
  ln -sfn "$(echo "$PWD"/build/sass-venv/lib/python3*/site-packages/nvidia/cu13/bin)" \
    build/sass-tools
}

if ! command -v apt-get >/dev/null; then
  echo "setup.sh: this script knows apt only; install by hand: ${packages[*]}" >&2
  exit 1
fi
install_packages "${packages[@]}"
if [ $cuda = pypi ]; then
  install_cuda_from_pypi
elif [ $cuda = missing ] && ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
  install_cuda_from_pypi
fi
[ $cuda = no ] || install_sass_tools
echo "setup: ready"
