#!/usr/bin/env bash
# vllm_gpu.sh STAGE... - test Tapedeck with a real vLLM on an NVIDIA GPU, stage by stage: record it
# with its GEMMs, replay its kernels from its own library, judge. A stage takes minutes and can be
# run again. It leaves its results in TD_GPU_WORK (default /tmp/tapedeck-gpu) and needs only the
# stages named here after "after", and `make all bugs` with nvcc.
#   facts     print the machine, the libraries, the names of vLLM's kernels
#   model     make two small GPTQ models of random weights, 4 bit and 8 bit (random_gptq.py)
#   record    after model: record suite quick on vLLM with exllama's kernels, eager, with the tap in
#             it
#   replay    after record: the recorded GEMMs on vLLM's own library, on our kernels, on ours with
#             planted bugs
#   server    after record: gate against the server started anew
#   ledger    after model: one request in flight; the ops must agree with the requests' token
#             counts, the launches with torch's profiler, and C with torch's A W
#   eight     after model: 8 bit, recorded and replayed
#   kill      after record: record is killed while others ask the server; then the server is killed
#             during record
#   marlin    after model: record and replay with Marlin's kernels
#   overflow  a model of the same function whose numbers overflow float16 in exllama's kernel, not
#             in Marlin's
#   graphs    after model: vLLM's default, CUDA graphs: record --graphs with exllama and Marlin,
#             replay; and the report without --graphs
#   nodes     after model: cost of the copies in graphs, between two servers (ROUNDS pairs; SAME=1:
#             equal servers)
#   flight    the model of overflow, 0.1 % of its GEMMs sampled: record --flight must name the first
#             bad launch, and its ops replay
#   scores    after record: scores and tokens of the same server, judged five times: no alarm
#   timing    after record: two equal builds side by side, five times: no alarm of speed; the GPU's
#             clocks
#   ring      after model: record --ring-mib: the default ring is too small for the op of a long
#             prompt
#   cublas    after model: what cuBLAS multiplies: the lm_head; then a model
#             that is not quantised, with biases; replay on the same cuBLAS must be bit for bit
#   operators after model: vLLM's default kernels (Machete), eager: the operators that the tap counts,
#             beside the launches of their kernels; then with CUDA graphs
#   machete   vLLM's default kernels, eager: plain, act-order, one group, 8 bits, bfloat16 (FORMS=WORD:
#             only the forms whose name contains WORD); and what the sleeping tap costs them
#             (MAX_OPS=N: judge N ops of each)
#   torch     recordings of vLLM's default kernels and of cuBLAS, run by provider torch from the same
#             Python: all pass; by other operators of the same meaning; with a fault in the operator
#             (faulty_torch), which must be caught (FORMS and MAX_OPS as above)
#   awq       AWQ with zero points that differ, on vLLM's default kernel (Machete): recorded, named, run
#             by provider torch and by cpu, with a fault in the operator (FORMS and MAX_OPS as above)
#   marlin-op, exllama-op: the same with --linear-backend marlin and exllama: act-order, one group (Marlin
#             alone), 8 bits, biases, and the recorded launches on vLLM's own library
#   moe       a mixture of 8 experts, 4 bits and float16 (FORMS=WORD, MAX_OPS=N as above; also
#             act-order, AWQ's zero points, bfloat16): recorded, named, run by provider torch and cpu,
#             with a fault in the operator. It needs vLLM's library of kernels for mixtures
#   fp8       products of FP8 by cutlass_scaled_mm: quantised at load, static checkpoints with a scale for
#             the tensor, for each channel, for blocks of 128; run by provider torch and by cpu, with a
#             fault in the operator (FORMS and MAX_OPS as above)
#   int8      the same of INT8 W8A8 (compressed-tensors), with and without zero points
#   forms     Marlin as other models use it: biases, act-order, bfloat16, AWQ's zero points, 8 bits;
#             exllama with act-order. It runs two or three forms at a time: run it again for the
#             rest (FORMS=WORD: only the forms whose name contains WORD)
#   private   operators of one's own (own_operators.cu, built here with nvcc), called by a loop in Python
#             without vLLM: recorded by record --ops, replayed by replay --ops and by cpu; a fault in
#             the extension, which must be caught (after torch: its ops by the own operator too)
#   launches  what vLLM passes to its GEMM kernels, parameter by parameter: the golden launches of
#             tests/unit/kernels/adapters/test_gpu_launches.c (needs CUPTI's headers)
#   tensor    after model, with two GPUs: tensor-parallel 2; the ops of both ranks are named and
#             replayed
#   cost      after model: the cost of the tap, its modes switched inside one server (bench/tap);
#             six minutes at a time until all ROUNDS (120) are there
#   start     what the sleeping tap adds to a server's start, and takes of the GPU: an 8B model's sizes
#             (LAYERS=8), PAIRS=3 starts without and with it
# Environment: PYTHON, an interpreter that can import vllm (default python3); TD_GPU_PORT (default
# 18600)
# SPDX-License-Identifier: Apache-2.0
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
BIN=${BIN:-$ROOT/bin} LIB=${LIB:-$ROOT/lib} PYTHON=${PYTHON:-python3}
WORK=${TD_GPU_WORK:-/tmp/tapedeck-gpu} PORT=${TD_GPU_PORT:-18600}
mkdir -p "$WORK" || exit 1
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_HOST_IP=127.0.0.1 VLLM_USE_FLASHINFER_SAMPLER=0 LC_ALL=C.UTF-8
failed=0
RECORD=${RECORD:-} SUITE=${SUITE:-quick} TOKENS=${TOKENS:-32} # RECORD: more options of record

say() { printf '%s\n' "$*" | tee -a "$WORK/table.txt"; }
wrong() { say "WRONG: $*"; failed=1; }
need() { [ -e "$WORK/$1" ] || { wrong "$1 is not there; run stage $2 first"; return 1; }; }

# vllm MODEL PORT OPTIONS...: sets COMMAND
vllm() {
    COMMAND=(env VLLM_CACHE_ROOT="$WORK/cache" "$PYTHON" -m vllm.entrypoints.cli.main serve "$WORK/$1" --served-model-name m --host 127.0.0.1 --port "$2" --dtype "${DTYPE:-half}"
        --max-model-len 2048 --max-num-seqs 16 --gpu-memory-utilization 0.3 --kv-cache-memory-bytes 1073741824 --generation-config vllm
        --no-enable-prefix-caching --seed 0 --enable-request-id-headers "${@:3}")
}

library() { # where vLLM's kernels are
    "$PYTHON" -c 'import glob, importlib.util, os
d = os.path.dirname(importlib.util.find_spec("vllm").origin)
print(next(p for n in ("_C_stable_libtorch.abi3.so", "_C.abi3.so") for p in glob.glob(os.path.join(d, n))))'
}

cublas() { # the libcublas that torch multiplies with
    "$PYTHON" -c 'import torch
a = torch.zeros(2, 2, device="cuda"); a @ a
print(next(l.split()[-1] for l in open("/proc/self/maps") if "/libcublas.so" in l))'
}

exact_policy() { echo '{"name":"exact weights","numerics":{"accept_format_change":true}}' >"$WORK/exact.json"; }

# expect VERDICT NAME PROGRAM ARGUMENTS...: run gate or differ; the exit code must be the verdict's.
# With -v, for only the long report says whether outputs are bit-equal.
expect() {
    local want=$1 name=$2 rc
    "$BIN/$3" "${@:4}" -v >"$WORK/$name.txt" 2>&1
    rc=$?
    say "$name: exit $rc (expected $want)  $(grep '^verdict:' "$WORK/$name.txt")"
    [ "$rc" = "$want" ] || { tail -n 25 "$WORK/$name.txt"; wrong "$name: exit $rc, expected $want"; }
}

record_server() { # NAME MODEL OPTIONS OF vllm...
    local name=$1 model=$2
    vllm "$model" "$PORT" "${@:3}"
    rm -rf "${WORK:?}/$name"
    "$BIN/record" -o "$WORK/$name" --server "127.0.0.1:$PORT" --suite "$SUITE" --repeat 3 -n "$TOKENS" --timeout 300 --gemms all --checkpoint "$WORK/$model" $RECORD \
        --run -- "${COMMAND[@]}" >"$WORK/$name.record.txt" 2>&1 || { tail -n 5 "$WORK/$name.record.txt"; wrong "record $name"; return 1; }
    grep -E '^ *(timed|tapped|ops|tap)' "$WORK/$name.record.txt" | tee -a "$WORK/table.txt"
    "$BIN/fixture" verify "$WORK/$name" >>"$WORK/$name.record.txt" 2>&1 || wrong "fixture verify $name"
}

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

# serve NAME MODEL OPTIONS OF vllm...: start a server (TAP=1: with the tap), wait until it listens;
# sets server
serve() {
    local name=$1 i
    vllm "$2" "$PORT" "${@:3}"
    (
        [ -z "${TAP:-}" ] || eval "$("$BIN/record" --tap-env)"
        exec setsid "${COMMAND[@]}"
    ) >"$WORK/$name.server.log" 2>&1 </dev/null &
    server=$!
    for i in $(seq 600); do
        (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null && return
        kill -0 "$server" 2>/dev/null || break
        sleep 0.5
    done
    tail -n 5 "$WORK/$name.server.log"
    wrong "$name: the server does not start"
    return 1
}

end_server() {
    kill "$server" 2>/dev/null
    wait "$server" 2>/dev/null
    kill -KILL -- "-$server" 2>/dev/null
}

# gate_server NAME FIXTURE MODEL OPTIONS OF vllm...: the fixture's requests to a server that is
# started for it; sets rc
gate_server() {
    serve "$1" "${@:3}"
    "$BIN/gate" "$WORK/$2" --server "127.0.0.1:$PORT" --lanes tokens,collapse >"$WORK/$1.txt" 2>&1
    rc=$?
    say "$1: exit $rc  $(grep '^verdict:' "$WORK/$1.txt")"
    end_server
}

# exllama's kernel adds halves in any order: an answer may equal none of the three recorded ones, and
# text alone cannot tell why (3).
stage_operators() {
    local name
    need model4 model || return
    for name in eager graphs; do
        vllm model4 "$PORT" $([ $name = graphs ] || echo --enforce-eager)
        rm -rf "${WORK:?}/operators-$name"
        "$BIN/record" -o "$WORK/operators-$name" --server "127.0.0.1:$PORT" --suite "$SUITE" --repeat 1 -n "$TOKENS" --timeout 300 --gemms all \
            --run -- "${COMMAND[@]}" >"$WORK/operators-$name.txt" 2>&1
        say "operators-$name: exit $?  $(grep '^torch' "$WORK/operators-$name.txt")"
        "$PYTHON" "$HERE/operator_counts.py" $name "$WORK/operators-$name" 4 2>&1 | tee -a "$WORK/table.txt"
        [ "${PIPESTATUS[0]}" = 0 ] || wrong "operators-$name"
    done
}

stage_server() {
    need exllama/manifest.json record || return
    gate_server exllama-server exllama model4 --enforce-eager --linear-backend exllama
    [ $rc = 0 ] || { [ $rc = 3 ] && grep -q 'answers equal none of the old ones' "$WORK/exllama-server.txt"; } ||
        wrong "exllama-server: exit $rc, expected 0, or 3 for answers that differ"
}

# truth NAME ARGUMENTS...: run gpu_truth.py and put its findings into the table
truth() {
    "$PYTHON" "$HERE/gpu_truth.py" "${@:2}" >"$WORK/$1.txt" 2>&1 || wrong "$1"
    grep -E '^(holds|WRONG|[A-Za-z.]*Error)' "$WORK/$1.txt" | tee -a "$WORK/table.txt"
}

stage_ledger() {
    need model4 model || return
    RECORD="-c 1 --ignore-eos" record_server ledger model4 --enforce-eager --linear-backend exllama || return
    rm -rf "$WORK/ledger.out" "$WORK/traces"
    "$BIN/fixture" export "$WORK/ledger" "$WORK/ledger.out" >/dev/null || { wrong "fixture export"; return; }
    truth ledger-steps steps "$WORK/ledger.out" 16 # 4 layers of qkv_proj, o_proj, gate_up_proj, down_proj
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

# vLLM's default: CUDA graphs. Small graphs only, so that the start takes less than a minute.
stage_graphs() {
    need model4 model || return
    local sizes='{"cudagraph_capture_sizes":[1,2,4,8,16]}' backend
    for backend in exllama marlin; do
        RECORD=--graphs record_server "graphs-$backend" model4 --linear-backend $backend --compilation-config "$sizes"
        grep -E '^(graphs|kernels| )' "$WORK/graphs-$backend.record.txt" | tee -a "$WORK/table.txt"
        "$BIN/fixture" show "$WORK/graphs-$backend" ledger | grep -E 'ops|launches|steps' | tee -a "$WORK/table.txt"
        expect 0 "graphs-$backend-cpu" gate "$WORK/graphs-$backend" --provider cpu --lanes ops
    done
    expect 0 graphs-exllama-own-library gate "$WORK/graphs-exllama" --build "$(library)" --lanes ops --only gemm_half_q_half
    expect 0 graphs-marlin-own-library gate "$WORK/graphs-marlin" --build "$(library)" --lanes ops
    grep -q 'all are bit-equal' "$WORK/graphs-marlin-own-library.txt" || wrong "graphs-marlin-own-library: not every output is bitwise the recorded one"
    record_server graphs-unseen model4 --linear-backend exllama --compilation-config "$sizes"
    grep -q 'whose GEMMs were not seen' "$WORK/graphs-unseen.record.txt" || wrong "graphs-unseen: the report does not name the graphs"
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

stage_cublas() {
    need model4 model || return
    local name only
    record_server cublas model4 --enforce-eager --linear-backend exllama
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model16" --bits 16 --bias
    record_server float model16 --enforce-eager
    for name in cublas float; do
        only=() # exllama's kernels add in any order
        [ $name = float ] || only=(--only lm_head)
        "$BIN/fixture" show "$WORK/$name" ledger | tee -a "$WORK/table.txt"
        expect 0 "$name-own-library" gate "$WORK/$name" --build "$(library)" --build-env "TD_CUBLAS_LIBRARY=$(cublas)" --lanes ops "${only[@]}"
        grep -q 'all are bit-equal' "$WORK/$name-own-library.txt" || wrong "$name-own-library: not every output is bitwise the recorded one"
        expect 0 "$name-cpu" gate "$WORK/$name" --provider cpu --lanes ops
    done
}

# form NAME BACKEND OPTIONS OF random_gptq.py...: record and judge a form, three minutes. Unless
# FORMS asks for it, a form that held before is not run again, and one that would make the stage
# longer than eight minutes is left for the next run.
form() {
    local name=$1 before=$failed
    [[ $name == *${FORMS:-}* ]] || return 0
    [ -n "${FORMS:-}" ] || [ ! -e "$WORK/$name.held" ] || { say "$name: held before"; return; }
    [ -n "${FORMS:-}" ] || [ $((SECONDS - start)) -lt 240 ] || { say "$name: left for the next run of this stage"; return; }
    failed=0
    a_form "$@"
    [ $failed != 0 ] || touch "$WORK/$name.held"
    failed=$((before | failed))
}

# a_form: the work of form: make a model, record it, replay it on vLLM's own library and on the CPU
a_form() {
    local name=$1 backend=$2
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-$name" "${@:3}" || { wrong "form $name: no model"; return; }
    record_server "$name" "model-$name" --enforce-eager --linear-backend "$backend" || return
    "$BIN/fixture" show "$WORK/$name" ledger | grep -E '^(weights|ops)' | tee -a "$WORK/table.txt"
    expect 0 "$name-own-library" gate "$WORK/$name" --build "$(library)" --build-env "TD_CUBLAS_LIBRARY=$(cublas)" --lanes ops
    [ "$backend" != marlin ] || grep -q 'all are bit-equal' "$WORK/$name-own-library.txt" || wrong "$name-own-library: not every output is bitwise the recorded one"
    expect 0 "$name-cpu" gate "$WORK/$name" --provider cpu --lanes ops
}

# A form of Machete: each call of its operator is an op with a layer's name, and its output is right.
# The recorded library cannot run it (no venv, no provider for operators yet): our own kernel judges.
machete_form() { # NAME OPTIONS OF random_gptq.py...
    local name=machete-$1
    [[ $name == *${FORMS:-}* ]] || return 0
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-$name" "${@:2}" || { wrong "$name: no model"; return; }
    record_server "$name" "model-$name" --enforce-eager || return
    grep '^torch' "$WORK/$name.record.txt" | tee -a "$WORK/table.txt"
    "$BIN/fixture" ops "$WORK/$name" --json | "$PYTHON" "$HERE/operator_ops.py" "$WORK/$name" _C::machete_mm 4 2>&1 | tee -a "$WORK/table.txt"
    [ "${PIPESTATUS[1]}" = 0 ] || wrong "$name"
    rm -rf "$WORK/$name.replayed"
    "$BIN/replay" "$WORK/$name" -o "$WORK/$name.replayed" --provider cpu --op-timing off ${MAX_OPS:+--max-ops "$MAX_OPS"} >"$WORK/$name.replay.txt" 2>&1
    grep -E 'gptq_gemm|first' "$WORK/$name.replay.txt" | tee -a "$WORK/table.txt"
    expect 0 "$name-cpu" differ "$WORK/$name" "$WORK/$name.replayed" --lanes ops
}

stage_machete() {
    machete_form plain
    machete_form act-order --act-order
    machete_form one-group --group -1
    machete_form eight --bits 8
    DTYPE=bfloat16 machete_form bf16
    [ -n "${FORMS:-}" ] && return
    # shellcheck disable=SC2046 # a word each
    "$PYTHON" "$HERE/operator_cost.py" "$(library)" $("$BIN/record" --tap-env | sed "s/^export //; s/'//g") 2>&1 | tee -a "$WORK/table.txt"
}

# torch_form NAME OPERATOR OPTIONS OF random_gptq.py...: record at vLLM's default kernels, replay by
# provider torch. OPERATOR: the one that the faults are in; none: cuBLAS
torch_form() {
    local name=torch-$1 operator=$2 fault other
    local judge=(--lanes ops --max-ops "${MAX_OPS:-160}" --build "$(command -v "$PYTHON")")
    [[ $name == *${FORMS:-}* ]] || return 0
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-$name" "${@:3}" || { wrong "$name: no model"; return; }
    record_server "$name" "model-$name" --enforce-eager || return
    "$BIN/fixture" show "$WORK/$name" ledger | grep -E 'ops|launches' | tee -a "$WORK/table.txt"
    expect 0 "$name-itself" gate "$WORK/$name" "${judge[@]}"
    grep -E 'bit-equal|largest|worst' "$WORK/$name-itself.txt" | head -n 4 | tee -a "$WORK/table.txt"
    [ "$operator" = none ] && return
    for fault in column row; do
        expect 1 "$name-fault-$fault" gate "$WORK/$name" "${judge[@]}" --only "$operator" --build-env "TD_FAULT=$fault" --build-env "PYTHONPATH=$HERE/faulty_torch:${PYTHONPATH:-}"
    done
    [ "$1" = plain ] || return
    for other in marlin_gemm gptq_gemm; do
        "$BIN/gate" "$WORK/$name" "${judge[@]}" --only "$operator" --as "$other" -v >"$WORK/$name-as-$other.txt" 2>&1
        say "$name-as-$other: exit $?  $(grep '^verdict:' "$WORK/$name-as-$other.txt")"
    done
    "$BIN/replay" "$WORK/$name" -o "$WORK/$name-timed" --build "$(command -v "$PYTHON")" --baseline-build "$(command -v "$PYTHON")" --only "$operator" --max-ops 8 >"$WORK/$name-timed.txt" 2>&1
    say "$name-timed: exit $?  $(tail -n 3 "$WORK/$name-timed.txt" | tr '\n' ';')"
}

stage_torch() {
    torch_form plain machete_mm
    torch_form float none --bits 16 --bias
    torch_form act-order machete_mm --act-order
    DTYPE=bfloat16 torch_form bf16 machete_mm
}

# operator_form NAME OPERATOR OPTIONS OF random_gptq.py...: what vLLM multiplies with by that operator
# (BACKEND: --linear-backend; else its default). Each call must be an op with a layer's name; provider
# torch must pass from the same Python, cpu too, and a fault in the operator must be caught.
operator_form() {
    local name=$1 operator=$2 fault
    local most=${MAX_OPS:-80}
    local judge=(--lanes ops --max-ops "$most" --build "$(command -v "$PYTHON")")
    [[ $name == *${FORMS:-}* ]] || return 0
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-$name" "${@:3}" || { wrong "$name: no model"; return; }
    record_server "$name" "model-$name" --enforce-eager ${BACKEND:+--linear-backend "$BACKEND"} || return
    "$BIN/fixture" show "$WORK/$name" ledger | grep -E 'ops|launches' | tee -a "$WORK/table.txt"
    "$BIN/fixture" ops "$WORK/$name" --json | "$PYTHON" "$HERE/operator_ops.py" "$WORK/$name" "_C::$operator" 4 2>&1 | tee -a "$WORK/table.txt"
    [ "${PIPESTATUS[1]}" = 0 ] || wrong "$name"
    expect 0 "$name-itself" gate "$WORK/$name" "${judge[@]}"
    grep -E 'bit-equal|largest|worst' "$WORK/$name-itself.txt" | head -n 4 | tee -a "$WORK/table.txt"
    expect 0 "$name-cpu" gate "$WORK/$name" --lanes ops --max-ops "$most" --provider cpu --only _proj
    if [ -n "${BACKEND:-}" ]; then # its launches are in the recording
        expect 0 "$name-own-library" gate "$WORK/$name" --lanes ops --max-ops "$most" --build "$(library)" --build-env "TD_CUBLAS_LIBRARY=$(cublas)" --only _proj
        grep -E 'bit-equal|largest|worst' "$WORK/$name-own-library.txt" | head -n 3 | tee -a "$WORK/table.txt"
    fi
    for fault in column row; do
        expect 1 "$name-fault-$fault" gate "$WORK/$name" "${judge[@]}" --only _proj --build-env "TD_FAULT=$fault" --build-env "PYTHONPATH=$HERE/faulty_torch:${PYTHONPATH:-}"
    done
}

stage_awq() {
    operator_form awq machete_mm --awq --fine
    DTYPE=bfloat16 operator_form awq-bf16 machete_mm --awq --fine
    operator_form awq-one-group machete_mm --awq --fine --group -1
}

# moe_form NAME OPTIONS OF random_gptq.py...: record a mixture at vLLM's defaults, eager; what share
# of its products is there; replay
moe_form() {
    local name=moe-$1 fault
    local judge=(--lanes ops --max-ops "${MAX_OPS:-160}")
    [[ $name == *${FORMS:-}* ]] || return 0
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-$name" --experts 8 --ffn 768 "${@:2}" || { wrong "$name: no model"; return; }
    record_server "$name" "model-$name" --enforce-eager || return
    grep -oE "Using '?[A-Za-z0-9_ ]*'? (WNA16|Unquantized) MoE backend" "$WORK/$name.server.log" 2>/dev/null | sort -u | tee -a "$WORK/table.txt"
    grep -E '^ *(torch|kernels|weights)' "$WORK/$name.record.txt" | tee -a "$WORK/table.txt"
    "$BIN/fixture" show "$WORK/$name" ledger | grep -E 'ops|weights|launches' | tee -a "$WORK/table.txt"
    "$BIN/fixture" ops "$WORK/$name" --json | "$PYTHON" "$HERE/moe_ops.py" "$WORK/$name" "$WORK/model-$name" 2>&1 | tee -a "$WORK/table.txt"
    [ "${PIPESTATUS[1]}" = 0 ] || wrong "$name"
    expect 0 "$name-itself" gate "$WORK/$name" "${judge[@]}" --build "$(command -v "$PYTHON")"
    grep -E 'bit-equal|largest|worst' "$WORK/$name-itself.txt" | head -n 4 | tee -a "$WORK/table.txt"
    expect 0 "$name-cpu" gate "$WORK/$name" "${judge[@]}" --provider cpu
    [ "$1" != float ] || return
    for fault in column row; do
        expect 1 "$name-fault-$fault" gate "$WORK/$name" "${judge[@]}" --build "$(command -v "$PYTHON")" --only moe_gemm --build-env "TD_FAULT=$fault" \
            --build-env "PYTHONPATH=$HERE/faulty_torch:${PYTHONPATH:-}"
    done
}

stage_moe() {
    "$PYTHON" -c 'import glob, importlib.util, os, sys
sys.exit(not glob.glob(os.path.join(os.path.dirname(importlib.util.find_spec("vllm").origin), "_moe_C*.so")))' ||
        { wrong "moe: this vLLM has no _moe_C library (moe.tar.xz, unpacked over it)"; return; }
    moe_form plain
    moe_form float --bits 16
    [ -n "${FORMS:-}" ] || return
    moe_form act-order --act-order
    moe_form awq --awq
    DTYPE=bfloat16 moe_form bf16
}

# eight_form NAME OPERATOR "OPTIONS OF vllm" OPTIONS OF random_gptq.py...: what vLLM multiplies in 8 bits
eight_form() {
    local name=$1 operator=$2 options=$3 fault
    local judge=(--lanes ops --max-ops "${MAX_OPS:-80}")
    local torch=("${judge[@]}" --build "$(command -v "$PYTHON")")
    [[ $name == *${FORMS:-}* ]] || return 0
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-$name" "${@:4}" || { wrong "$name: no model"; return; }
    # shellcheck disable=SC2086 # options, a word each
    record_server "$name" "model-$name" --enforce-eager $options || return
    grep '^torch' "$WORK/$name.record.txt" | tee -a "$WORK/table.txt"
    "$BIN/fixture" show "$WORK/$name" ledger | grep -E '^(weights|ops|launches)' | tee -a "$WORK/table.txt"
    "$BIN/fixture" ops "$WORK/$name" --json | "$PYTHON" "$HERE/scaled_ops.py" "$WORK/$name" "_C::$operator" 4 2>&1 | tee -a "$WORK/table.txt"
    [ "${PIPESTATUS[1]}" = 0 ] || wrong "$name"
    expect 0 "$name-itself" gate "$WORK/$name" "${torch[@]}"
    grep -E 'bit-equal|largest|worst' "$WORK/$name-itself.txt" | head -n 4 | tee -a "$WORK/table.txt"
    expect 0 "$name-cpu" gate "$WORK/$name" "${judge[@]}" --provider cpu --only "$operator"
    grep -E 'largest|worst|score' "$WORK/$name-cpu.txt" | head -n 4 | tee -a "$WORK/table.txt"
    for fault in column row; do
        expect 1 "$name-fault-$fault" gate "$WORK/$name" "${torch[@]}" --only "$operator" --build-env "TD_FAULT=$fault" --build-env "PYTHONPATH=$HERE/faulty_torch:${PYTHONPATH:-}"
    done
}

stage_fp8() {
    DTYPE=bfloat16 eight_form fp8-load cutlass_scaled_mm "--quantization fp8" --bits 16
    eight_form fp8-block cutlass_scaled_mm "--linear-backend cutlass" --eight block
    eight_form fp8-tensor cutlass_scaled_mm "" --eight tensor
    DTYPE=bfloat16 eight_form fp8-channel cutlass_scaled_mm "" --eight channel
}

stage_int8() {
    eight_form int8 cutlass_scaled_mm "" --eight int8
    DTYPE=bfloat16 eight_form int8-azp cutlass_scaled_mm_azp "" --eight int8-azp
}

stage_marlin-op() {
    local BACKEND=marlin
    operator_form marlin-op marlin_gemm --bias
    operator_form marlin-op-act-order marlin_gemm --act-order
    operator_form marlin-op-one-group marlin_gemm --group -1
    DTYPE=bfloat16 operator_form marlin-op-eight marlin_gemm --bits 8
    operator_form marlin-op-awq marlin_gemm --awq --fine
}

stage_exllama-op() {
    local BACKEND=exllama
    operator_form exllama-op gptq_gemm --bias
    operator_form exllama-op-act-order gptq_gemm --act-order
    operator_form exllama-op-eight gptq_gemm --bits 8
}

stage_forms() {
    form marlin-bias marlin --bias
    form marlin-act-order marlin --act-order
    form marlin-awq marlin --awq
    DTYPE=bfloat16 form marlin-bf16 marlin --bias
    form marlin-eight marlin --bits 8
    DTYPE=bfloat16 form marlin-awq-bf16 marlin --awq
    form exllama-act-order exllama --act-order
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

stage_tensor() {
    need model4 model || return
    [ "$("$PYTHON" -c 'import torch; print(torch.cuda.device_count())')" -ge 2 ] || { say "tensor: skipped, one GPU"; return; }
    record_server tensor model4 --enforce-eager --linear-backend exllama --tensor-parallel-size 2 || return
    "$BIN/fixture" show --all "$WORK/tensor" | grep -E 'rank' | head -n 6 | tee -a "$WORK/table.txt"
    expect 0 tensor-cpu gate "$WORK/tensor" --provider cpu --lanes ops
    expect 0 tensor-own-library gate "$WORK/tensor" --build "$(library)" --build-env "TD_CUBLAS_LIBRARY=$(cublas)" --lanes ops
    # vLLM's default kernel, through its operator: each rank repacks its slices
    record_server tensor-machete model4 --enforce-eager --tensor-parallel-size 2 || return
    "$BIN/fixture" show "$WORK/tensor-machete" ledger | grep -E '^(weights|ops)' | tee -a "$WORK/table.txt"
    expect 0 tensor-machete-torch gate "$WORK/tensor-machete" --build "$(command -v "$PYTHON")" --lanes ops --max-ops "${MAX_OPS:-80}"
    expect 0 tensor-machete-cpu gate "$WORK/tensor-machete" --provider cpu --lanes ops --max-ops "${MAX_OPS:-80}"
}

stage_start() {
    [ -d "$WORK/model-8b" ] || "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-8b" --hidden 4096 --ffn 14336 --layers "${LAYERS:-8}" || { wrong "start: no model"; return; }
    vllm model-8b "$PORT" --enforce-eager
    # shellcheck disable=SC2046 # a word each
    "$PYTHON" "$HERE/server_start.py" "${PAIRS:-3}" "$PORT" "$WORK/start.server.log" $("$BIN/record" --tap-env | sed "s/^export //; s/'//g") \
        -- "${COMMAND[@]}" 2>&1 | tee -a "$WORK/table.txt"
    [ "${PIPESTATUS[0]}" = 0 ] || wrong start
}

build_own() { # FILE, options: compile own_operators.cu against torch's headers
    local torch std
    torch=$("$PYTHON" -c 'import os, torch; print(os.path.dirname(torch.__file__))') || return 1
    for std in c++17 c++20; do
        nvcc -O2 -std=$std -arch=native -Xcompiler -fPIC -shared -DUSE_CUDA "${@:2}" -I"$torch/include" "$HERE/own_operators.cu" -o "$1" -L"$torch/lib" \
            -ltorch_cpu -ltorch_cuda >"$WORK/own.nvcc.txt" 2>&1 && return
    done
    tail -n 5 "$WORK/own.nvcc.txt"
    return 1
}

stage_private() {
    local own=$WORK/own python op n
    python=$(command -v "$PYTHON")
    command -v nvcc >/dev/null || { wrong "private: no nvcc here"; return; }
    mkdir -p "$own"
    cp "$HERE/own_operators.ops" "$own"
    build_own "$own/own_operators.so" && build_own "$own/faulty.so" -DFAULT || { wrong "private: own_operators.cu does not compile"; return; }
    rm -rf "${WORK:?}/private"
    "$BIN/record" -o "$WORK/private" --server "127.0.0.1:$PORT" --suite "$HERE/brief.jsonl" --repeat 1 -n 16 --timeout 120 --gemms all --ops "$own/own_operators.ops" \
        --run -- env OWN_OPERATORS="$own/own_operators.so" "$PYTHON" "$ROOT/tests/fakes/fake_server.py" --port "$PORT" --seconds 300 --steps "$HERE/own_layers.py" \
        >"$WORK/private.record.txt" 2>&1 || { tail -n 5 "$WORK/private.record.txt"; wrong "record private"; return; }
    grep -E '^ *(ops|tap|torch|kernels)|warning' "$WORK/private.record.txt" | tee -a "$WORK/table.txt"
    "$BIN/fixture" verify "$WORK/private" >>"$WORK/private.record.txt" 2>&1 || wrong "fixture verify private"
    for op in w4a16_gemm linear; do
        n=$("$BIN/fixture" ops "$WORK/private" --json | grep -o "\"tapedeck_own::$op\"" | wc -l)
        say "private: $n ops of $op"
        [ "$n" -gt 0 ] || wrong "private: no op of $op"
    done
    expect 0 private-ops gate "$WORK/private" --build "$python" --ops "$own/own_operators.ops" --lanes ops
    expect 0 private-cpu gate "$WORK/private" --provider cpu --lanes ops
    expect 1 private-fault gate "$WORK/private" --build "$python" --ops "$own/own_operators.ops" --build-env "TD_OPS_LOAD=$own/faulty.so" --lanes ops
    expect 0 private-both gate "$WORK/private" --build "$python" --baseline-build "$python" --ops "$own/own_operators.ops" --lanes ops --max-ops 64
    [ ! -e "$WORK/torch-plain/manifest.json" ] ||
        expect 0 private-machete gate "$WORK/torch-plain" --build "$python" --ops "$own/own_operators.ops" --build-env TD_OPERATOR=tapedeck_own::w4a16_gemm \
            --only machete_mm --max-ops 64 --lanes ops
}

# What the copies in graphs cost: two servers side by side, asked in turn.
stage_nodes() {
    need model4 model || return
    GRAPHS=1 TD_TAP_DIR=$WORK/run "$PYTHON" "$ROOT/bench/tap/nodes.py" "$PYTHON" "$WORK/model4" "$LIB/libtapedeck-tap.so" "${ROUNDS:-120}" | tee -a "$WORK/table.txt"
}

stage_cost() {
    need model4 model || return
    PYTHON=$PYTHON MODEL=$WORK/model4 BIN=$BIN LIB=$LIB STREAMS=1 BENCH_SECONDS=${BENCH_SECONDS:-360} BENCH_KEEP=${BENCH_KEEP:-$WORK/cost} \
        bash "$ROOT/bench/tap/run.sh" vllm_gpu "${ROUNDS:-120}" | tee -a "$WORK/table.txt"
}

[ $# -gt 0 ] || { sed -n '2,/^# SPDX/{/SPDX/!s/^# \{0,1\}//p}' "$0"; exit 2; }
for stage; do
    declare -F "stage_$stage" >/dev/null || { echo "vllm_gpu: no stage $stage" >&2; exit 2; }
    start=$SECONDS
    say "== $stage"
    "stage_$stage"
    say "== $stage: $((SECONDS - start)) s"
done
exit $failed
