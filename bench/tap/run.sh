#!/usr/bin/env bash
# run.sh - what the tap costs: asleep per call, armed in tokens per second. Prints a table; asserts nothing.
# usage: BIN=… LIB=… bench/tap/run.sh [ROUNDS]      MODEL=DIR (default demo/checkpoints/gptq4), CC, O
# SPDX-License-Identifier: Apache-2.0
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BIN=${BIN:-$ROOT/bin} LIB=${LIB:-$ROOT/lib} O=${O:-$ROOT/build} CC=${CC:-cc} MODEL=${MODEL:-$ROOT/demo/checkpoints/gptq4}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$ROOT"
flags="-std=c17 -O2 -D_GNU_SOURCE -I. -pthread"
$CC $flags -fPIC -shared bench/tap/nothing.c -o "$work/libnothing.so"
$CC $flags bench/tap/asleep.c -o "$work/asleep" -L"$work" -lnothing -Wl,-rpath,"$work"
$CC $flags bench/tap/tapctl.c recorder/links*.c recorder/layers.c "$O/libtapedeck.a" -o "$work/tapctl" -lcurl -lzstd -lcjson -lxxhash -lm -ldl
export TD_TAP_DIR="$work/run" TD_TAP_LIBRARY="$LIB/libtapedeck-tap.so"
python3 bench/tap/bench.py "$work" "$BIN/demo-server" "$MODEL" "$TD_TAP_LIBRARY" "${1:-20}"
