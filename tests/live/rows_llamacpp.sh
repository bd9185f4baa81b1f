# rows_llamacpp.sh - the rows of the live matrix on llama.cpp, a function each; lib.sh explains how
# a row is written. live.sh sources this file. The model is SmolLM2-135M-Instruct, Q4_1. The server
# runs one thread (-t 1), so that repeats are bit-equal on a busy machine too.
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

# recording NAME OPTIONS...: the good build with the tap in it, recorded once in a run of live.sh;
# sets FIXTURE
recording() {
    local port
    FIXTURE=$WORK/llamacpp-$1
    [ -f "$FIXTURE/manifest.json" ] && return
    need llamacpp
    port=$(free_port) || exit 1
    llama_command good "$port"
    record_to "$FIXTURE" --server "127.0.0.1:$port" "${@:2}" --run -- "${COMMAND[@]}"
}
good() { recording good --suite quick --repeat 5; }
brief() { recording brief --suite "$HERE/brief.jsonl" --repeat 2 --max-tokens 300 --ignore-eos --gemms off; }

GOOD=$LLAMA/build/bin
OPS=600     # ops replayed: every kernel, shape and class of M keeps its share

# judge_build BUILD OPTIONS...: its server and its kernels, beside the good build's
judge_build() {
    good
    serve_llama "$1"
    judge "$FIXTURE" --server "$URL" --build "$(llama_libraries "$1")" --baseline-build "$GOOD" --max-ops $OPS --keep "$WORK/kept-$1" "${@:2}"
}

row_llamacpp_same() {
    row 'llama.cpp good' 'same build, restarted' pass
    judge_build good --lanes tokens,collapse,ops
    want 'all are bit-equal' 'ops'
    want 'tokens +pass'
    want 'covered: ggml_mul_mat'
}

row_llamacpp_nofma() {
    row 'llama.cpp good' 'honest other rounding (no FMA), slower' regressed
    judge_build nofma
    want 'ops +pass' 'ops'
    want 'tokens +inconclusive' 'tokens fork'
    want 'covered: ggml_mul_mat [0-9]+ of [0-9]+ shapes' 'coverage'
    want 'speed +regressed' 'speed'
    want 'hot +total' 'all ops'
}

row_llamacpp_nofma_calibrated() {
    row 'llama.cpp good' 'the same, calibrated by another honest build' pass
    good
    [ -d "$WORK/kept-nofma/candidate-0" ] || { serve_llama nofma; replay_to "$WORK/kept-nofma/candidate-0" "$FIXTURE" --server "$URL" \
        --build "$(llama_libraries nofma)" --max-ops $OPS; stop "$SERVER"; }
    serve_llama noavx
    replay_to "$WORK/calibration" "$FIXTURE" --server "$URL" --repeat 2
    compare "$FIXTURE" "$WORK/kept-nofma/candidate-0" --lanes tokens,ops --calibrate "$WORK/calibration"
    want 'tokens +pass' 'forks inside the calibrated spread'
    want 'ops +pass' 'ops'
}

row_llamacpp_bug_tail() {
    row 'llama.cpp good' 'bug_q4_1_tail' regressed
    good
    judge "$FIXTURE" --build "$(llama_libraries bug_q4_1_tail)" --baseline-build "$GOOD" --max-ops $OPS --lanes ops
    want 'ops +regressed' 'ops'
    want 'WHICH .*K/32 % 4 != 0' 'blame'
    want '576x1536 +1 +[0-9]+ +0 ' 'K/32 = 48, a multiple of 4: no op is bad'
}

# A bug that the reader of the text does not see: collapse passes, and a fork is shown as it reads.
readable_bug() { # BUILD
    judge_build "$1"
    want 'collapse +pass' 'the text stays readable'
    want '^ +new +' 'it reads'
    want 'ops +regressed' 'ops'
    want 'WHICH ' 'blame'
}

row_llamacpp_bug_truncate() {
    row 'llama.cpp good' 'bug_q8_1_truncate (text stays readable)' regressed
    readable_bug bug_q8_1_truncate
}

row_llamacpp_bug_scale() {
    row 'llama.cpp good' 'bug_q8_1_scale_bf16 (text stays readable)' regressed
    readable_bug bug_q8_1_scale_bf16
}

all_ops() { recording all-ops --suite quick --repeat 2 --all-ops; }

row_llamacpp_elsewhere() {
    row 'llama.cpp good' 'its norm adds in float: GEMMs equal' inconclusive
    all_ops
    serve_llama honest_norm
    judge "$FIXTURE" --server "$URL" --build "$(llama_libraries honest_norm)" --max-ops 3000
    want 'all are bit-equal' 'ops'
    want 'begins' 'where the texts part'
    want 'first op that departs' 'named'
}

# On a CPU with AVX-512 the older tree is built for it, as a packager does: the Q4_1 kernels stay
# the same, attention does not. For AVX2 the two trees are equal in every kind of op (972 of 972
# recorded ops of 9 kinds, and all texts).
row_llamacpp_old_tree() {
    local old=$CACHE/llamacpp_old/build/bin port
    if grep -q -w avx512f /proc/cpuinfo; then
        row 'llama.cpp good' "llama-cpp-python's older tree, for AVX-512" inconclusive
    else
        row 'llama.cpp good' "llama-cpp-python's older tree, for AVX2" pass
    fi
    need llamacpp_old
    all_ops
    port=$(free_port) || exit 1
    serve llama-old "$port" 120 env OMP_WAIT_POLICY=passive "$old/llama-server" --host 127.0.0.1 --port "$port" -m "$CACHE/model.gguf" -t 1 -c 8192 -np 6 \
        --metrics --no-webui
    judge "$FIXTURE" --server "$URL" --build "$old" --max-ops 3000
    want 'all are bit-equal' 'ops'
    want 'ops without reference: bit-equal' 'the other kinds'
    [ "$WANT" = pass ] || want 'begins' 'where the texts part'
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
