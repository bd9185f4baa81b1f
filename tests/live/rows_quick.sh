# rows_quick.sh - one real server in half a minute, without a compiler: llama.cpp out of the wheel xllamacpp. Sourced by live.sh.
# SPDX-License-Identifier: Apache-2.0

quick_command() { # PORT: sets COMMAND
    COMMAND=(env OMP_WAIT_POLICY=passive PYTHONPATH="$CACHE/xllamacpp" python3 "$HERE/serve_xllamacpp.py" "$CACHE/model.gguf" "$1")
}

row_quick_same() {
    row 'llama.cpp (xllamacpp)' 'same build, restarted' pass
    local port
    need xllamacpp
    port=$(free_port) || exit 1
    quick_command "$port"
    serve good "$port" 60 "${COMMAND[@]}"
    record_to "$WORK/quick-good" --server "$URL" --suite "$ROOT/fixtures/suites/smoke.jsonl" --repeat 2
    stop "$SERVER"
    serve same "$port" 60 "${COMMAND[@]}"
    judge "$WORK/quick-good" --server "$URL"
    want 'tokens +pass'
}
