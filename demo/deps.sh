#!/bin/sh
# deps.sh - install Debian packages by name, saying so; without root, print the line to run.
# usage: deps.sh [--quiet] PACKAGE...        SPDX-License-Identifier: Apache-2.0
quiet=
[ "$1" = --quiet ] && { quiet=1; shift; }
missing=
for p in "$@"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
if [ -z "$missing" ]; then
    [ -n "$quiet" ] || echo "deps: everything is installed"
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "deps: this is no Debian-like system; install what corresponds to:$missing" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "deps: not root; run:  sudo apt-get install -y$missing" >&2
    exit 1
fi
echo "deps: apt-get install$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
{ apt-get update && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    echo "deps: apt-get failed (log: $log)" >&2
    exit 1
}
rm -f "$log"
