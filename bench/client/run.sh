#!/usr/bin/env bash
# run.sh - how late clients note the events of an SSE source, and what an event costs them: record beside aiohttp. Asserts nothing.
# usage: BIN=… bench/client/run.sh [ROUNDS] [STREAMS...]   (default 3 rounds; 64 256 512 1024 streams)
# environment:
#   PYTHON=…           a python with aiohttp; without one, record is measured alone, and that is said; with uvloop, too,
#                      aiohttp is measured on it as well
#   VLLM=…             the folder vllm/benchmarks of vLLM's wheel: the request function of its bench serve, too
#   VLLM_BENCH=… GUIDELLM=… AIPERF=…   executables vllm, guidellm, aiperf: the tools themselves, each run twice, with a fifth of
#                      the events and with all, some ten seconds of start-up each. One that is not named is left out, and that is said
#   RECORD_WAS=…       another build of record, measured beside this one
#   RATE=50            events a second of each stream. From some 20,000 of all streams on, Python takes a whole core, falls
#                      behind, and reads several at once: its CPU of an event is that core's second by their number then
#   BENCH_SECONDS=6    of each run
#   SPREAD=1           streams send in 20 steps, not all in one
#   SOURCE_CPU=0 CLIENT_CPU=1
# SPDX-License-Identifier: Apache-2.0
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BIN=${BIN:-$ROOT/bin} CC=${CC:-cc} PYTHON=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$CC" -std=c17 -D_GNU_SOURCE -O2 -Wall -Wextra -o "$work/source" "$ROOT/bench/client/source.c"
"$PYTHON" -c 'import aiohttp, sys; print("aiohttp", aiohttp.__version__, "python", sys.version.split()[0])' 2>/dev/null ||
    { echo "bench/client: $PYTHON has no aiohttp (PYTHON=…): record alone is measured"; PYTHON=; }
rounds=${1:-3}
shift || true
[ $# -gt 0 ] || set -- 64 256 512 1024
ulimit -n "$(ulimit -Hn)"
python3 "$ROOT/bench/client/bench.py" "$work/source" "$BIN/record" "$PYTHON" "$rounds" "$@"
