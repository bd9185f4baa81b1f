#!/usr/bin/env bash
# fail_calls.sh [SCENARIO ...] - every call of the C library fails in turn, in every program: CALLS (6) of each function at most,
# evenly spread; LEAKS=1: under valgrind, RUNS=8 of each scenario. OFTEN=1: in programs that commit 50 times a second, where others
# do twice (they are built into build/often first): what a failure leaves between two commits. Without names that is then asked of
# what writes a fixture. SPDX-License-Identifier: Apache-2.0
set -u
export CALLS=${CALLS:-$((6 * ${SCALE:-1}))}
here=$(cd "$(dirname "$0")" && pwd)
if [ "${OFTEN:-0}" != 0 ]; then
    often=$(cd "$here/../.." && pwd)/build/often
    export BIN=$often/bin LIB=$often/lib O=$often
    CPPFLAGS=-DTD_FRAME_COMMIT_NS=20000000LL make -s -C "$here/../.." -j"$(nproc)" BIN="$BIN" LIB="$LIB" O="$O" all tests >&2 || exit 1
    [ $# -gt 0 ] || set -- merge redact extract unpack repair replay replay-server replay-child record record-run pcap passive
fi
exec python3 "$here/fail_calls.py" "$@"
