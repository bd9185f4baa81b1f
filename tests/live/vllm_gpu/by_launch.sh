# shellcheck shell=bash disable=SC2154
# by_launch.sh - for vllm_gpu.sh: stages that see exllama's and Marlin's kernels by their launches.
# SPDX-License-Identifier: Apache-2.0

stage_facts() {
    nvidia-smi --query-gpu=name,driver_version,clocks.sm,temperature.gpu --format=csv,noheader | tee -a "$WORK/table.txt"
    say "library $(library)"
    "$BIN/replay" --kernels "$(library)" gptq | tail -n 30
}

stage_model() {
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model4" && "$PYTHON" "$HERE/random_gptq.py" "$WORK/model8" --bits 8
}

stage_record() {
    need model4 model || return
    record_server exllama model4 --enforce-eager --linear-backend exllama
}

# planted NAME FIXTURE CAUGHT OPTIONS...: judge our kernels with each planted bug (make bugs). Those
# of CAUGHT must be regressed. The others show only with sizes that are no multiple of the tile, or
# (float16 sums) beside a baseline that does not sum in float16: their result is printed, and none
# is expected.
planted() {
    local name=$1 fixture=$2 caught=$3 bug
    shift 3
    for bug in $caught; do
        expect 1 "$name-bug-$bug" gate "$fixture" --build "$LIB/bugs-gpu/$bug.fatbin" --lanes ops "$@"
    done
    for bug in column_tail past_end fp16_overflow; do
        [[ " $caught " != *" $bug "* ]] || continue
        "$BIN/gate" "$fixture" --build "$LIB/bugs-gpu/$bug.fatbin" --lanes ops "$@" >"$WORK/$name-bug-$bug.txt" 2>&1
        say "$name-bug-$bug: exit $? (not expected to show here)  $(grep '^verdict:' "$WORK/$name-bug-$bug.txt")"
    done
}

stage_replay() {
    need exllama/manifest.json record || return
    # prompts of more than 50 rows: vLLM's reconstruct kernel, then the cuBLAS that its torch has loaded
    expect 0 exllama-own-library gate "$WORK/exllama" --build "$(library)" --build-env "TD_CUBLAS_LIBRARY=$(cublas)" --lanes ops
    "$BIN/replay" "$WORK/exllama" -o "$WORK/exllama-long" --build "$(library)" --build-env "TD_CUBLAS_LIBRARY=$(cublas)" --only reconstruct_exllama >"$WORK/exllama-long.txt" 2>&1
    say "exllama-long: exit $?  $(grep -E 'gptq_gemm|^ops ' "$WORK/exllama-long.txt" | tr '\n' ';')"
    rm -f "$WORK/exllama.fatbin" # the code that was recorded, in place of the library
    "$BIN/fixture" code "$WORK/exllama" -o "$WORK/exllama.fatbin" || wrong "fixture code exllama"
    expect 0 exllama-recorded-code gate "$WORK/exllama" --build "$WORK/exllama.fatbin" --lanes ops --only gemm_half_q_half
    exact_policy # ours do not round the weights of such ops, vLLM does
    expect 0 exllama-our-kernels gate "$WORK/exllama" --build "$LIB/td_kernels.fatbin" --lanes ops --policy "$WORK/exact.json"
    planted exllama "$WORK/exllama" "zero_off_by_one no_barrier" --policy "$WORK/exact.json"
    expect 0 exllama-cpu gate "$WORK/exllama" --provider cpu --lanes ops
}

# exllama's kernel adds halves in any order: an answer may equal none of the three recorded ones, and
# text alone cannot tell why (3).
stage_server() {
    need exllama/manifest.json record || return
    gate_server exllama-server exllama model4 --enforce-eager --linear-backend exllama
    [ $rc = 0 ] || { [ $rc = 3 ] && grep -q 'answers equal none of the old ones' "$WORK/exllama-server.txt"; } ||
        wrong "exllama-server: exit $rc, expected 0, or 3 for answers that differ"
}

stage_ledger() {
    need model4 model || return
    RECORD="-c 1 --ignore-eos" record_server ledger model4 --enforce-eager --linear-backend exllama || return
    rm -rf "$WORK/ledger.out" "$WORK/traces"
    "$BIN/fixture" export "$WORK/ledger" "$WORK/ledger.out" >/dev/null || { wrong "fixture export"; return; }
    truth ledger-steps steps "$WORK/ledger.out" 17 # 4 layers of qkv_proj, o_proj, gate_up_proj, down_proj; the lm_head
    say "ledger: how the rows of steps were assigned: $(grep -oh '"how":"[a-z]*"' "$WORK/ledger.out/steps.jsonl" | sort | uniq -c | tr '\n' ' ')"
    grep -q '"how":"unknown"' "$WORK/ledger.out/steps.jsonl" && wrong "ledger: one request at a time, and not all steps are assigned to it"
    truth ledger-torch torch "$WORK/ledger.out" "$WORK/model4"
    serve profiled model4 --enforce-eager --linear-backend exllama --profiler-config.profiler=torch --profiler-config.torch_profiler_dir="$WORK/traces" \
        --profiler-config.torch_profiler_with_stack=false && truth ledger-ask ask "$WORK/ledger.out" "http://127.0.0.1:$PORT"
    end_server
    truth ledger-profile profile "$WORK/ledger.out" "$WORK/traces"
}

stage_eight() {
    need model8 model || return
    record_server eight model8 --enforce-eager --linear-backend exllama
    expect 0 eight-own-library gate "$WORK/eight" --build "$(library)" --lanes ops
    exact_policy # ours do not round the weights of prompts of more than 24 rows, vLLM does
    expect 0 eight-our-kernels gate "$WORK/eight" --build "$LIB/td_kernels.fatbin" --lanes ops --policy "$WORK/exact.json"
    expect 0 eight-cpu gate "$WORK/eight" --provider cpu --lanes ops
}

# still_valid FIXTURE: repair a recording whose end was not written; then it must verify
still_valid() {
    "$BIN/fixture" repair "$WORK/$1" >>"$WORK/$1.record.txt" 2>&1
    "$BIN/fixture" verify "$WORK/$1" >>"$WORK/$1.record.txt" 2>&1 || wrong "fixture verify $1"
    say "$1: $("$BIN/fixture" show "$WORK/$1" 2>/dev/null | grep -c '^ *[0-9]') lines of exchanges and ops, verified"
}

watched() { # NAME: record in the background, until ops come; sets recorder
    rm -rf "${WORK:?}/$1"
    "$BIN/record" -o "$WORK/$1" --server "127.0.0.1:$PORT" --suite "$SUITE" --repeat 1 --tapped-repeat 200 -n "$((2 * TOKENS))" --timeout 300 --gemms all --checkpoint "$WORK/model4" \
        >"$WORK/$1.record.txt" 2>&1 &
    recorder=$!
    for _ in $(seq 600); do [ -s "$WORK/$1/ops.jsonl.zst" ] && return; sleep 0.1; done
    wrong "$1: no op came in 60 s"
}

stage_kill() {
    local replay
    need exllama/manifest.json record || return
    TAP=1 serve kill model4 --enforce-eager --linear-backend exllama || { end_server; return; }
    watched killed-recorder
    rm -rf "$WORK/beside"
    "$BIN/replay" "$WORK/exllama" -o "$WORK/beside" --server "127.0.0.1:$PORT" >"$WORK/beside.txt" 2>&1 &
    replay=$!
    sleep 1
    kill -KILL "$recorder"
    wait "$recorder" 2>/dev/null
    wait "$replay"
    say "kill: record is killed, the requests beside it end with $?  $(grep -E 'fail|sent' "$WORK/beside.txt" | tail -n 1)"
    still_valid killed-recorder
    watched killed-server
    kill -KILL -- "-$server"
    wait "$recorder"
    say "kill: the server is killed, record ends with $?  $(tail -n 1 "$WORK/killed-server.record.txt")"
    still_valid killed-server
    end_server
}

stage_marlin() {
    need model4 model || return
    record_server marlin model4 --enforce-eager --linear-backend marlin
    expect 0 marlin-own-library gate "$WORK/marlin" --build "$(library)" --lanes ops
    grep -q 'all are bit-equal' "$WORK/marlin-own-library.txt" || wrong "marlin-own-library: not every output is bitwise the recorded one"
    expect 0 marlin-cpu gate "$WORK/marlin" --provider cpu --lanes ops
    exact_policy # ours do not round weights, Marlin does
    expect 0 marlin-our-kernels gate "$WORK/marlin" --build "$LIB/td_kernels.fatbin" --lanes ops --policy "$WORK/exact.json"
    planted marlin "$WORK/marlin" "zero_off_by_one no_barrier fp16_overflow" --policy "$WORK/exact.json"
}

# The same function with larger numbers inside: Marlin adds in float32, exllama's kernel adds four
# products in float16 before it scales them.
stage_overflow() {
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model4r" --rescale 1024
    record_server rescaled model4r --enforce-eager --linear-backend marlin
    expect 0 rescaled-cpu gate "$WORK/rescaled" --provider cpu --lanes ops
    gate_server rescaled-exllama rescaled model4r --enforce-eager --linear-backend exllama
    [ $rc = 1 ] || wrong "rescaled-exllama: exit $rc, expected 1"
    record_server overflow model4r --enforce-eager --linear-backend exllama
    "$BIN/gate" "$WORK/overflow" --provider cpu --lanes ops -v >"$WORK/overflow-cpu.txt" 2>&1
    say "overflow-cpu: exit $?  $(grep '^verdict:' "$WORK/overflow-cpu.txt")"
}

# The flight recorder must find the first bad launch among thousands that are not recorded.
stage_flight() {
    [ -d "$WORK/model4r" ] || "$PYTHON" "$HERE/random_gptq.py" "$WORK/model4r" --rescale 1024
    vllm model4r "$PORT" --enforce-eager --linear-backend exllama
    rm -rf "$WORK/flight"
    "$BIN/record" -o "$WORK/flight" --server "127.0.0.1:$PORT" --suite "$SUITE" --repeat 1 -n "$TOKENS" --timeout 300 --gemms 0.1% --flight --tapped-repeat 20 \
        --checkpoint "$WORK/model4r" --run -- "${COMMAND[@]}" >"$WORK/flight.record.txt" 2>&1 || { tail -n 5 "$WORK/flight.record.txt"; wrong "record flight"; return; }
    grep -E '^ *(ops|flight)|first bad op' "$WORK/flight.record.txt" | tee -a "$WORK/table.txt"
    grep -q 'first bad op.*down_proj.*its inputs all are finite' "$WORK/flight.record.txt" || wrong "flight: no bad launch of a down_proj with a finite input is named"
    "$BIN/fixture" verify "$WORK/flight" >>"$WORK/flight.record.txt" 2>&1 || wrong "fixture verify flight"
    expect 0 flight-cpu gate "$WORK/flight" --provider cpu --lanes ops
    # as bad as when they were recorded: nothing to judge by
    expect 3 flight-own-library gate "$WORK/flight" --build "$(library)" --build-env "TD_CUBLAS_LIBRARY=$(cublas)" --lanes ops
}

stage_scores() {
    local i
    need exllama/manifest.json record || return
    serve scores model4 --enforce-eager --linear-backend exllama || { end_server; return; }
    for i in 1 2 3 4 5; do expect 0 "scores-$i" gate "$WORK/exllama" --server "127.0.0.1:$PORT" --lanes tokens,scores; done
    end_server
}

stage_timing() {
    local i
    need exllama/manifest.json record || return
    for i in 1 2 3 4 5; do
        expect 0 "timing-$i" gate "$WORK/exllama" --build "$(library)" --baseline-build "$(library)" --lanes ops,speed --only gemm_half_q_half --max-ops 320
        grep -E 'clock|MHz|throttl|speed' "$WORK/timing-$i.txt" | tee -a "$WORK/table.txt"
    done
    rm -rf "$WORK/clocks" "$WORK/clocks.out"
    "$BIN/replay" "$WORK/exllama" -o "$WORK/clocks" --build "$(library)" --baseline-build "$(library)" --only gemm_half_q_half --max-ops 2 >"$WORK/clocks.txt" 2>&1 &&
        "$BIN/fixture" export "$WORK/clocks" "$WORK/clocks.out" >/dev/null && say "clocks: $(grep -ho '"device":.*' "$WORK"/clocks.out/ops.jsonl | head -n 1)"
    grep -q '"sm_mhz"' "$WORK"/clocks.out/ops.jsonl || wrong "timing: no clock of the GPU is in what was timed"
    expect 1 timing-slower gate "$WORK/exllama" --build "$LIB/td_kernels.fatbin" --baseline-build "$(library)" --lanes ops,speed --only gemm_half_q_half --max-ops 320
}

# The same prompts with the default ring and with a larger one, in one server.
stage_ring() {
    local mib
    need model4 model || return
    TAP=1 serve ring model4 --enforce-eager --linear-backend marlin || { end_server; return; }
    for mib in 64 512; do
        rm -rf "$WORK/ring-$mib"
        "$BIN/record" -o "$WORK/ring-$mib" --server "127.0.0.1:$PORT" --suite "$SUITE" --repeat 1 -n "$TOKENS" --timeout 300 --gemms all --checkpoint "$WORK/model4" --ring-mib $mib \
            >"$WORK/ring-$mib.record.txt" 2>&1 || wrong "record ring-$mib"
        grep -E '^ *(ops|tap)|ring' "$WORK/ring-$mib.record.txt" | tee -a "$WORK/table.txt"
        "$BIN/fixture" verify "$WORK/ring-$mib" >>"$WORK/ring-$mib.record.txt" 2>&1 || wrong "fixture verify ring-$mib"
    done
    end_server
    "$BIN/fixture" show "$WORK/ring-512" ledger | grep -q 'dropped.ring' && wrong "ring: 512 MiB had no room either"
    expect 0 ring-own-library gate "$WORK/ring-512" --build "$(library)" --lanes ops
}

# launched NAME BACKEND OPTIONS OF random_gptq.py...: write the launches of requests with few, some
# and many rows
launched() {
    local name=$1 rows
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-$name" "${@:3}" || { wrong "launches $name: no model"; return; }
    rm -f "$WORK/launches-$name.txt"
    TD_LAUNCHES=$WORK/launches-$name.txt CUDA_INJECTION64_PATH=$WORK/liblaunches.so serve "launches-$name" "model-$name" --enforce-eager --linear-backend "$2" || return
    for rows in 2 20 38 180; do
        "$PYTHON" -c 'import json, sys, urllib.request
url, rows = sys.argv[1], int(sys.argv[2])
body = {"model": "m", "prompt": list(range(300, 300 + rows)), "max_tokens": 2, "temperature": 0}
urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}), timeout=60).read()' \
            "http://127.0.0.1:$PORT" "$rows" || wrong "launches $name: $rows rows"
    done
    end_server
    [ -s "$WORK/launches-$name.txt" ] || { wrong "launches $name: nothing was written (another profiler, or no libcupti.so.13 in the process)"; return; }
    say "launches $name: $(wc -l <"$WORK/launches-$name.txt") kernels and grids"
}

stage_launches() {
    local cuda=${CUDA_HOME:-/usr/local/cuda}
    cc -O2 -D_GNU_SOURCE -fPIC -shared -pthread -I"$cuda/include" -I"$cuda/extras/CUPTI/include" "$HERE/launches.c" -o "$WORK/liblaunches.so" -ldl || { wrong "launches.c"; return; }
    launched exllama exllama
    launched exllama-act-order exllama --act-order
    launched exllama8 exllama --bits 8
    launched marlin marlin
    DTYPE=bfloat16 launched marlin-awq-bf16 marlin --awq --bias
}
