#!/usr/bin/env bash
# run.sh - exchanges out of a capture of SSE traffic: record --pcap beside tcpflow, tshark and httpry. Asserts nothing.
# usage: BIN=… bench/pcap/run.sh [MEGABYTES] [ROUNDS]   (default 1000 and 5; a tool that is not installed is named and left out)
# environment:
#   TSHARK_ROUNDS=1    rounds in which tshark takes part (it is slow); 0: none
#   RECORD_WAS=…       another build of record, measured beside this one
#   STREAMS=256 SEED=1 REORDERED=0.01 LOST=0.001
#   KEYS=1             requests have keys, so record searches all for them
# SPDX-License-Identifier: Apache-2.0
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
export BIN=${BIN:-$ROOT/bin}
make -s -C "$ROOT" build/bench/pcap/traffic build/bench/pcap/check >&2
exec python3 "$ROOT/bench/pcap/bench.py" "$ROOT/build/bench/pcap" "${1:-1000}" "${2:-5}"
