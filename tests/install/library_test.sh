#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# library_test.sh LIBVOLLEY_SO VOLLEY_H: the library exports exactly the functions that the header
# declares, and needs nothing but the system's own libraries.
set -euo pipefail
export LC_ALL=C
library=$1 header=$2

declared=$(grep -oE '^VOLLEY_API [^(]*\bvolley_[a-z0-9_]+\(' "$header" |
  grep -oE 'volley_[a-z0-9_]+' | sort -u)
exported=$(nm -D --defined-only "$library" | awk '{print $3}' | sort -u)
test -n "$declared"
if ! diff <(echo "$declared") <(echo "$exported"); then
  echo "exports differ from the header: < is only declared, > is only exported" >&2
  exit 1
fi

# What every glibc system has. Before glibc 2.34 threads and dl were libraries of their own.
system='^(lib(stdc\+\+|m|gcc_s|c|pthread|dl|rt)\.so\.[0-9]+|ld-linux[a-z0-9-]*\.so\.[0-9]+)$'
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
foreign=$(echo "$needed" | grep -vE "$system" || true)
if [ -n "$foreign" ]; then
  echo "$library needs more than the system's libraries:" $foreign >&2
  exit 1
fi
if readelf -d "$library" | grep -E 'RPATH|RUNPATH|TEXTREL'; then
  echo "$library must have no run path and no text relocations" >&2
  exit 1
fi
echo "$(echo "$exported" | wc -l) functions exported; needs:" $needed
