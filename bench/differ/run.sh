#!/usr/bin/env bash
# run.sh - what comparing two large fixtures costs: differ, an older build of it, and a plain script. Asserts nothing.
# usage: BIN=… bench/differ/run.sh [ROUNDS]     (default 3)
# environment:
#   EXCHANGES=10000 TOKENS=256   of each fixture, with five alternatives a token
#   SPELT=1            each token's text, too, as llama.cpp sends it
#   DIFFER_WAS=…       another build of differ, measured beside this one
#   PYTHON=…           a python with zstandard; without one the script is left out, and that is said
#   BENCH_KEEP=DIR     keep the fixtures there (0.5 GB), and use those of an earlier run
# SPDX-License-Identifier: Apache-2.0
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BIN=${BIN:-$ROOT/bin} PYTHON=${PYTHON:-python3}
make -s -C "$ROOT" build/bench/differ/make_fixture
if [ -n "${BENCH_KEEP:-}" ]; then
    work=$BENCH_KEEP
    mkdir -p "$work"
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
cat "$ROOT"/docs/*.md >"$work/text"
for one in base:0 same:0 changed:10; do
    [ -f "$work/${one%:*}/manifest.json" ] ||
        "$ROOT/build/bench/differ/make_fixture" "$work/${one%:*}" "$work/text" "exchanges=${EXCHANGES:-10000}" \
            "tokens=${TOKENS:-256}" "spelt=${SPELT:-0}" "changed=${one#*:}"
done
programs=("differ=$BIN/differ")
[ -z "${DIFFER_WAS:-}" ] || programs+=("was=$DIFFER_WAS")
if "$PYTHON" -c 'import sys, zstandard; print("zstandard", zstandard.__version__, "python", sys.version.split()[0])' 2>/dev/null; then
    programs+=("peer=$ROOT/bench/differ/peer.py")
else
    echo "bench/differ: $PYTHON has no zstandard (PYTHON=…): the script is left out"
fi
"$PYTHON" "$ROOT/bench/differ/bench.py" "${1:-3}" "$work/base" "$work/same" "$work/changed" "${programs[@]}"
