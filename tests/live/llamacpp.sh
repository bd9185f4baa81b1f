#!/usr/bin/env bash
# llamacpp.sh - a server nobody here wrote: record a real llama.cpp with a real 135M model, replay on the same build (must
# pass) and on one with a planted bug (must not pass: without ops the text is no proof, so inconclusive is right, unless it
# collapses). Requests only: tokens, logprobs, timings; its ops are not recorded yet.
# The last line: "live-llamacpp: A/2 rows hold". Cache: TD_LIVE_CACHE, default ~/.cache/tapedeck-live.
# SPDX-License-Identifier: Apache-2.0
set -u
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BIN=${BIN:-$ROOT/bin}
CACHE=${TD_LIVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tapedeck-live}/llamacpp
PORT=${PORT:-18480}
bash "$ROOT/tests/live/get_llamacpp.sh" "$CACHE" || { echo "live-llamacpp: not runnable here: the server could not be built"; exit 1; }
WORK=$(mktemp -d "${TMPDIR:-/tmp}/tapedeck-live.XXXXXX")
pid=
stop() { [ -n "$pid" ] && kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; pid=; }
trap 'stop; rm -rf "$WORK"' EXIT
serve() { # $1: folder with libggml-*.so that come first
    OMP_WAIT_POLICY=passive LD_LIBRARY_PATH=$1 "$CACHE/build/bin/llama-server" -m "$CACHE/model.gguf" --host 127.0.0.1 --port "$PORT" \
        -t 1 -c 8192 -np 6 --metrics --no-webui >"$WORK/server.log" 2>&1 &
    pid=$!
    for _ in $(seq 300); do
        (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null && return
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 5 "$WORK/server.log" >&2
    echo "live-llamacpp: the server did not start" >&2
    exit 1
}

echo "== record: the good build"
serve "$CACHE/build/bin"
"$BIN/record" --server "127.0.0.1:$PORT" -o "$WORK/good" --suite quick --repeat 5 || exit 1
stop

rows=0
echo; echo "== gate: the same build, restarted (expected: pass)"
serve "$CACHE/build/bin"
"$BIN/gate" "$WORK/good" --server "127.0.0.1:$PORT"
same=$?
stop
[ $same = 0 ] && rows=$((rows + 1))

echo; echo "== gate: a build whose Q4_1 kernel forgets its tail (expected: not pass)"
serve "$CACHE/bug_tail/bin"
"$BIN/gate" "$WORK/good" --server "127.0.0.1:$PORT"
bug=$?
stop
{ [ $bug = 1 ] || [ $bug = 3 ]; } && rows=$((rows + 1))

echo; echo "same build: exit $same; planted bug: exit $bug"
echo "live-llamacpp: $rows/2 rows hold"
[ $rows = 2 ]
