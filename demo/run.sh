#!/usr/bin/env bash
# run.sh - Tapedeck's main job from start to end, on the demo server (`make demo`):
#   1 record the good build
#   2 break a kernel; the gate fails, shows the answers, and says which kernel broke
#   3 the same gate passes on the good build
# usage: [BIN=..] [LIB=..] [MODEL=DIR] [BUG=NAME] demo/run.sh      BUG: a bug of demo/bugs
# Each server listens on the loopback and is ended by its own pid. Only the folder named at the end
# stays.
# SPDX-License-Identifier: Apache-2.0
set -u
ROOT=$(cd "$(dirname "$0")/.." && pwd)
BIN=${BIN:-$ROOT/bin} LIB=${LIB:-$ROOT/lib}
MODEL=${MODEL:-$ROOT/demo/checkpoints/gptq4}
BUG=${BUG:-fp16_overflow}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/tapedeck-demo.XXXXXX")
server_pid=

stop_server() {
    [ -n "$server_pid" ] && kill "$server_pid" 2>/dev/null && wait "$server_pid" 2>/dev/null
    server_pid=
}
trap stop_server EXIT
die() { echo "demo: $*" >&2; exit 1; }
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
run() { # show a command the way a person would type it, then run it
    local shown=$*
    shown=${shown//$WORK\//}
    shown=${shown//$BIN\//}
    shown=${shown//$ROOT\//}
    printf '$ %s\n' "$shown"
    "$@"
}
start_server() { # $1: folder of the libtdkernels.so to serve with; sets url
    : >"$WORK/server.out" # else the line of the last server is read
    LD_LIBRARY_PATH=$1 "$BIN/demo-server" --model "$MODEL" --served-model-name tapedeck-demo --port 0 >"$WORK/server.out" 2>"$WORK/server.log" &
    server_pid=$!
    for _ in $(seq 100); do
        url=$(sed -n 's/^listening on http:\/\///p' "$WORK/server.out")
        [ -n "$url" ] && return
        kill -0 "$server_pid" 2>/dev/null || die "the server did not start: $(tail -n 1 "$WORK/server.log")"
        sleep 0.1
    done
    die "the server did not start within 10 s"
}
free_port() {
    local p
    for p in $(seq 18080 18180); do
        (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || { echo "$p"; return; }
    done
    die "no free port between 18080 and 18180"
}

say "1. Record the good build: prompts, answers, timings and the inputs of its GEMMs"
port=$(free_port)
run "$BIN/record" --server "127.0.0.1:$port" -o "$WORK/good" --suite quick --repeat 3 \
    --run -- "$BIN/demo-server" --model "$MODEL" --served-model-name tapedeck-demo --port "$port" || die "record failed"

say "2. A new build with a planted bug ($BUG): does it pass the gate before a merge?"
start_server "$LIB/bugs/$BUG"
run "$BIN/gate" "$WORK/good" --server "$url" --build "$LIB/bugs/$BUG/libtdkernels.so" --baseline-build "$LIB/libtdkernels.so" \
    --artifacts "$WORK/failed"
bad=$?
echo "exit code $bad"
stop_server

say "3. The unchanged build passes the same gate"
start_server "$LIB"
run "$BIN/gate" "$WORK/good" --server "$url" --build "$LIB/libtdkernels.so" --baseline-build "$LIB/libtdkernels.so"
good=$?
echo "exit code $good"
stop_server

say "Kept in $WORK: good/ (the recording) and failed/ (the report, the replay, the first bad op)"
echo "Look around with: bin/fixture show $WORK/good"
[ "$bad" = 1 ] && [ "$good" = 0 ] || die "expected exit codes 1 and 0, got $bad and $good"
