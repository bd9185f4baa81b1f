# rows_llamacpp.sh - the matrix on llama.cpp: one function a row (lib.sh says what they are made of). Sourced by live.sh.
# The model is SmolLM2-135M-Instruct, Q4_1. One thread (-t 1): bit-equal repeats, and a machine that does other things too.
# SPDX-License-Identifier: Apache-2.0
LLAMA=$CACHE/llamacpp

llama_libraries() { # BUILD: the folder whose libggml-*.so come first
    case $1 in good) echo "$LLAMA/build/bin" ;; *) echo "$LLAMA/variants/$1" ;; esac
}

# llama_command BUILD PORT OPTIONS...: sets COMMAND
llama_command() {
    COMMAND=(env OMP_WAIT_POLICY=passive LD_LIBRARY_PATH="$(llama_libraries "$1")" "$LLAMA/build/bin/llama-server" --host 127.0.0.1 --port "$2"
        -m "$CACHE/model.gguf" -t 1 -c 8192 -np 6 --metrics --no-webui "${@:3}")
}

serve_llama() { # BUILD OPTIONS...: the candidate, or a baseline that goes on living
    local port
    need llamacpp
    port=$(free_port) || exit 1
    llama_command "$1" "$port" "${@:2}"
    serve "llama-$1" "$port" 120 "${COMMAND[@]}"
}

# recording NAME OPTIONS...: the good build, recorded once in a run of live.sh; sets FIXTURE
recording() {
    FIXTURE=$WORK/llamacpp-$1
    [ -f "$FIXTURE/manifest.json" ] && return
    serve_llama good
    record_to "$FIXTURE" --server "$URL" "${@:2}"
    stop "$SERVER"
}
good() { recording good --suite quick --repeat 5; }
brief() { recording brief --suite "$HERE/brief.jsonl" --repeat 2 --max-tokens 300 --ignore-eos; }

row_llamacpp_same() {
    row 'llama.cpp good' 'same build, restarted' pass
    good
    serve_llama good
    judge "$FIXTURE" --server "$URL" --lanes tokens,collapse
    want 'tokens +pass'
}

row_llamacpp_dies_midstream() {
    row 'llama.cpp good' 'dies in mid-stream (500th event)' regressed
    local port
    good
    serve_llama good
    port=$(free_port) || exit 1
    serve cut "$port" 10 python3 "$HERE/cut_stream.py" "$port" "${URL##*:}" "$SERVER" 500
    judge "$FIXTURE" --server "$URL"
    want 'lost=[1-9]'
    want 'repeat [0-9]+: cut: ' 'cut in the middle'
}

row_llamacpp_nobody() {
    row 'llama.cpp good' 'nobody listens' broken
    brief
    judge "$FIXTURE" --server "127.0.0.1:$(free_port)" --timeout 5
    want 'verdict: broken cause='
}

row_llamacpp_loading() {
    row 'llama.cpp good' 'still loading (503) past the timeout' broken
    brief
    gcc -shared -fPIC -o "$ROW.slow_load.so" "$HERE/slow_load.c" || die "slow_load.c does not compile"
    local port
    port=$(free_port) || exit 1
    llama_command good "$port"
    serve llama-loading "$port" 120 env LD_PRELOAD="$ROW.slow_load.so" "${COMMAND[@]}"
    judge "$FIXTURE" --server "$URL" --timeout 8
    want 'verdict: broken cause=.*(load|503)'
}

row_llamacpp_other_model() {
    row 'llama.cpp good' 'other model: 12 of its 30 layers' refused
    brief
    [ -f "$CACHE/other.gguf" ] || python3 "$HERE/cut_gguf.py" "$CACHE/model.gguf" "$CACHE/other.gguf" 12 || die "cut_gguf.py: exit $?"
    serve_llama good -m "$CACHE/other.gguf"
    judge "$FIXTURE" --server "$URL"
    want 'model\.gguf.*other\.gguf' 'both are shown'
}

row_llamacpp_short_context() {
    row 'llama.cpp good' 'context of 256, the fixture needs more' refused
    brief
    serve_llama good -c 256 -np 1
    judge "$FIXTURE" --server "$URL"
    want '3[0-9][0-9].*256|256.*3[0-9][0-9]' 'both are shown'
}
