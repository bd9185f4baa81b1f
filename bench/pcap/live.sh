#!/usr/bin/env bash
# live.sh - record --passive on the loopback: packets that the kernel dropped, and what the capture costs. Asserts nothing.
# usage: BIN=… bench/pcap/live.sh [ROUNDS]   (default 3; needs CAP_NET_RAW)
# environment: STREAMS=256   BENCH_SECONDS=10 of each run   RATES="20 0": events a second of each stream; 0: all that the loopback takes
# SPDX-License-Identifier: Apache-2.0
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
export BIN=${BIN:-$ROOT/bin}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${CC:-cc} -std=c17 -D_GNU_SOURCE -O2 -Wall -Wextra -o "$work/loopback" "$ROOT/bench/pcap/loopback.c" -lpthread
python3 "$ROOT/bench/pcap/live.py" "$work" "${1:-3}"
