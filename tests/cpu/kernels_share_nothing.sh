#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Fails when an object that is compiled for newer CPUs defines a weak symbol: the linker keeps one
# copy of such a function, and that copy would then run on older CPUs too. DW.ref.* are pointers to
# the C++ run time in exception tables: data, the same in every object.
# Usage: kernels_share_nothing.sh NM LIBRARY
set -eu
symbols=$("$1" -C --defined-only --print-file-name "$2" | grep -E ':avx[0-9]*\.cpp\.o:' || true)
[ -n "$symbols" ] || { echo "no kernel for a newer CPU in $2"; exit 0; }
shared=$(printf '%s\n' "$symbols" | grep -E ' [VWu] ' | grep -v ' V DW\.ref\.' || true)
[ -z "$shared" ] || { echo "shared with the rest of the library:"; echo "$shared"; exit 1; }
