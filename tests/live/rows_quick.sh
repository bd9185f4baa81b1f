# rows_quick.sh - the row of `make live-quick`: a real server in half a minute, without a compiler
# (llama.cpp from the wheel xllamacpp). live.sh sources this file; lib.sh explains how a row is
# written.
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
