#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Shows that README's two commands work on a bare Debian 12: makes a minimal tree with debootstrap,
# adds git and nothing else, clones the last commit into it and runs the commands there. Needs root;
# takes the mirror that this machine's own apt uses. Slow: for releases, not for every landing.
#   scripts/bare_debian_test.sh [FOLDER]      the tree; removed at the end unless named
set -euo pipefail
cd "$(dirname "$0")/.."

suite=bookworm
[ "$(id -u)" = 0 ] || { echo "bare_debian_test.sh: needs root, for debootstrap" >&2; exit 1; }
command -v debootstrap >/dev/null || scripts/setup.sh --dev
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' \
  'Created-By: Packages' | awk -v suite=$suite '$2 == suite && $3 == "main" {print $1; exit}')
[ -n "$mirror" ] || { echo "bare_debian_test.sh: apt knows no mirror of $suite" >&2; exit 1; }

tree=${1:-$(mktemp -d)}
cleanup() {
  mountpoint -q "$tree/proc" && umount "$tree/proc"
  [ $# = 0 ] || return 0
  rm -rf --one-file-system "$tree"
}
trap "cleanup ${1:+keep}" EXIT

echo "bare: debootstrap of $suite into $tree"
chmod 755 "$tree"  # apt drops its rights and must still read it
[ -x "$tree/usr/bin/git" ] ||
  debootstrap --variant=minbase --include=git,ca-certificates $suite "$tree" "$mirror" >/dev/null
mount -t proc proc "$tree/proc"
cp /etc/resolv.conf "$tree/etc/resolv.conf"
git bundle create -q "$tree/volley.bundle" HEAD

inside() { chroot "$tree" env -i HOME=/ PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C "$@"; }
rm -rf "$tree/volley"
inside git clone -q /volley.bundle /volley
for command in scripts/demo.sh scripts/test.sh; do
  echo "bare: $command"
  begin=$SECONDS
  inside sh -c "cd /volley && $command"
  echo "bare: $command took $((SECONDS - begin)) s"
done
