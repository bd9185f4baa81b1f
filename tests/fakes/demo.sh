# demo.sh - functions for end-to-end cases that use the demo server: start and stop it, a small
# suite, and `say`, which prints a program's stable output. Source it first; it also sources lib.sh
# (the fake server). A server listens on the loopback, on a port that it chooses, and is ended by
# its own pid.
# SPDX-License-Identifier: Apache-2.0
. "$ROOT/tests/fakes/lib.sh"
model=${CHECKPOINTS:-$ROOT/demo/checkpoints}/gptq4
[ -f "$model/config.json" ] || { echo "there is no demo/checkpoints/gptq4"; exit 77; }
demo_pid=
demo_stop() { [ -n "$demo_pid" ] && kill "$demo_pid" 2>/dev/null && wait "$demo_pid" 2>/dev/null; demo_pid=; }
trap 'demo_stop; fake_stop' EXIT
demo_start() { # options of demo-server; sets url and demo_pid
    demo_stop
    : >server.out
    "$BIN/demo-server" --model "$model" --served-model-name "${name:-demo}" --port 0 "$@" >server.out 2>server.log &
    demo_pid=$!
    for _ in $(seq 300); do
        url=$(sed -n 's/^listening on http:\/\///p' server.out)
        [ -n "$url" ] && return
        kill -0 "$demo_pid" 2>/dev/null || break
        sleep 0.1
    done
    echo "the demo server did not start: $(cat server.log)"
    exit 1
}
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
demo_suite() { # three short prompts, two of them at once
    cat <<'SUITE'
{"id":"one","category":"short","prompt":"In the beginning","max_tokens":12}
{"id":"two","category":"short","prompt":"And the light","max_tokens":12,"concurrency":2}
{"id":"three","category":"short","prompt":"Let there be","max_tokens":12,"concurrency":2}
SUITE
}
# say COMMAND...: run a program; print its last line of results, its errors and its exit code,
# without the parts that differ from run to run
say() {
    local rc
    "$@" >say.out 2>say.err
    rc=$?
    { tail -n 1 say.out; grep -h ': error: ' say.err | head -n 2; } | steady
    echo "exit $rc"
}
steady() {
    sed -E "s|$PWD/||g; s|$BIN|BIN|g; s|$LIB|LIB|g; s|$O|O|g; s/127\.0\.0\.1:[1-9][0-9]+/URL/g; s/127\.0\.0\.1 port [0-9]+ after [0-9]+ ms/URL/
        s/ itl=[^ ]*//; s/, ttft p50 [0-9.e+]+ ms, [0-9.e+]+ tok\/s//; s/[.]tmp[.][0-9]+/.tmp/; s/tapedeck-gate[-.][A-Za-z0-9]{6}/GATE/g"
}
