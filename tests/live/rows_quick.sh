# rows_quick.sh - the rows of `make live-quick`: a real server in half a minute (llama.cpp from the
# wheel xllamacpp), recorded by our own requests and as it serves others, and the front for torch's operators before a real libtorch_cpu.so. live.sh
# sources this file; lib.sh explains how a row is written.
# SPDX-License-Identifier: Apache-2.0

quick_command() { # PORT: sets COMMAND
    COMMAND=(env OMP_WAIT_POLICY=passive PYTHONPATH="$CACHE/xllamacpp" python3 "$HERE/serve_xllamacpp.py" "$CACHE/model.gguf" "$1")
}

# Set TAPPED: a command that starts the server with the tap in it, by `record --tap-env`.
with_tap() { TAPPED=(bash -c 'eval "$("$0" --tap-env)"; exec "$@"' "$BIN/record" "$@"); }

row_quick_same() {
    row 'llama.cpp (xllamacpp)' 'same build, restarted' pass
    local port
    need xllamacpp
    port=$(free_port) || exit 1
    quick_command "$port"
    with_tap "${COMMAND[@]}"
    serve good "$port" 60 "${TAPPED[@]}"
    # half of the suite's length, and a quarter of the steps: a busy machine loses none of so few, and of a
    # sample that is no fault
    sed '/creative-again/d; s/"max_tokens": 96/"max_tokens": 48/' "$ROOT/fixtures/suites/smoke.jsonl" >"$WORK/quick.jsonl"
    record_to "$WORK/quick-good" --server "$URL" --suite "$WORK/quick.jsonl" --repeat 2 --gemms 25% --budget -1 --checkpoint "$CACHE/model.gguf"
    stop "$SERVER"
    serve same "$port" 60 "${COMMAND[@]}"
    judge "$WORK/quick-good" --server "$URL" --provider cpu --max-ops 200
    want 'tokens +pass'
    want 'ops +pass' 'its GEMMs, by our kernels'
    want 'ggml_mul_mat [0-9]+ of [0-9]+ shapes'
}

# Traffic of others, captured beside an armed tap. They ask for a model by a name that the server does not have, which llama.cpp
# does not mind; one after the other, so that it comes out whose rows its steps are.
row_quick_passive() {
    row 'llama.cpp, traffic of others' 'the same server' pass
    local port pid rc fixture=$WORK/quick-passive
    python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)' 2>/dev/null || cannot 'no right to capture (CAP_NET_RAW)'
    need xllamacpp
    port=$(free_port) || exit 1
    quick_command "$port"
    with_tap "${COMMAND[@]}"
    serve passive "$port" 60 "${TAPPED[@]}"
    python3 "$HERE/ask_others.py" "$URL" 1 || die 'the server does not answer' # a tap is found once its server has computed something
    LOG=$ROW.record.log
    TD_LOG=record:2 "$BIN/record" --passive --server "$URL" --interface lo --api llamacpp --gemms all --layers 0-3 --budget -1 --ring-mib 128 \
        --checkpoint "$CACHE/model.gguf" -o "$fixture" >"$LOG" 2>&1 &
    pid=$!
    PIDS="$PIDS $pid"
    for _ in $(seq 300); do grep -q listening "$LOG" && break; kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    python3 "$HERE/ask_others.py" "$URL" 6 || die 'the server does not answer'
    sleep 1
    kill -INT "$pid"
    wait "$pid"
    rc=$?
    [ $rc = 0 ] || { tail -n 20 "$LOG" >&2; die "record: exit $rc, $(tail -n 1 "$LOG")"; }
    python3 "$HERE/captured_ops.py" "$fixture" 6 >"$WORK/captured-ops.txt" 2>&1 || wrong "the fixture: $(tail -n 1 "$WORK/captured-ops.txt")"
    put measured "$(tail -n 1 "$WORK/captured-ops.txt")"
    say "$(tail -n 1 "$WORK/captured-ops.txt")"
    judge "$fixture" --server "$URL" --provider cpu --max-ops 100
    want 'tokens +pass'
    want 'ops +pass' 'its GEMMs, by our kernels'
}

# ---- torch's operators ---------------------------------------------------------------------------

# The answers of the library's operators, by torch's dispatcher
operator_answers() { # LIBRARY, on stdout
    python3 -c '
import ctypes, sys
ops, out = ctypes.CDLL(sys.argv[1]), ctypes.create_string_buffer(8192)
if ops.torch_ops_answers(out, len(out)):
    sys.exit("the answers are too long")
sys.stdout.write(out.value.decode())' "$1"
}

# same_answers WHAT FILE: they must be those without the tap
same_answers() {
    if diff "$WORK/torch-plain.txt" "$2" >&2; then put measured "$1: the same answers"; say "$1: the same answers"
    else wrong "$1: other answers than without the tap"
    fi
}

row_quick_torch() {
    local version=${TORCH:-2.15.0} lib port ops=$WORK/torch_ops.so
    row "torch $version" 'its operators under the tap' pass
    need torch
    lib=$CACHE/torch/$version
    # as vLLM's libraries: linked with torch, which stays in a scope of its own
    "${CC:-gcc}" -std=c17 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -shared -fPIC "-I$ROOT" "$HERE/torch_ops.c" -o "$ops" \
        "-L$lib" -l:libtorch_cpu.so "-Wl,-rpath,$lib" || die 'torch_ops.c does not compile'
    operator_answers "$ops" >"$WORK/torch-plain.txt" 2>"$ROW.err" || die 'the operators do not answer without the tap'
    cmp -s "$HERE/torch_answers.txt" "$WORK/torch-plain.txt" || wrong "the operators' answers are not those of torch_answers.txt"
    export TD_TAP_DIR=$WORK/torch-tap
    (eval "$("$BIN/record" --tap-env)"; operator_answers "$ops") >"$WORK/torch-tap.txt" 2>"$ROW.err"
    same_answers 'the tap asleep' "$WORK/torch-tap.txt"

    # the server ends at the first wrong answer
    port=$(free_port) || exit 1
    with_tap python3 "$ROOT/tests/fakes/fake_server.py" --port "$port" --torch "$ops"
    serve torch "$port" 60 "${TAPPED[@]}"
    echo '{"id":"one","prompt":"The quick brown fox"}' >"$WORK/torch.jsonl"
    "$BIN/record" --server "$URL" -o "$WORK/torch-fixture" --suite "$WORK/torch.jsonl" --repeat 2 -n 8 --gemms all >"$ROW.record.txt" 2>&1
    # shellcheck disable=SC2181
    [ $? = 4 ] || wrong "record: not exit 4, which says that no GEMM was seen: $(tail -n 1 "$ROW.record.txt")"
    kill -0 "$SERVER" 2>/dev/null || wrong "the server ended: an operator's answer changed while the tap was armed"
    python3 "$HERE/torch_counts.py" "$WORK/torch-fixture" >"$WORK/torch-counts.txt" 2>&1 || wrong "the counts: $(tail -n 1 "$WORK/torch-counts.txt")"
    put measured "$(tail -n 1 "$WORK/torch-counts.txt")"
    say "$(tail -n 1 "$WORK/torch-counts.txt")"
    [ -n "$(awk -F '\t' '$1 == "failed"' "$RESULT")" ] || put got 'pass (0)'
}
