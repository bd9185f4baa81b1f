# rows_vllm.sh - the rows of the live matrix on vLLM without a GPU, a function each; lib.sh explains
# how a row is written. live.sh sources this file. The model is the one of the llama.cpp rows, as
# bf16 and as GPTQ with 4 bits (make_gptq.py). vLLM's GPTQ kernels need AVX-512 here; a row that
# cannot run names the reason.
# SPDX-License-Identifier: Apache-2.0
VLLM=$CACHE/vllm

has_avx512() { grep -q -w avx512f /proc/cpuinfo && grep -q -w avx512bw /proc/cpuinfo; }
need_avx512() { has_avx512 || cannot "this CPU has no AVX-512, and vLLM's GPTQ kernels for CPUs (W4A8, W4A16) need it"; }

# With AMX vLLM rounds activations of GPTQ layers to 8 bits (W4A8), else it does not (W4A16),
# whatever VLLM_CPU_INT4_W4A8 says.
has_amx() { grep -q -w amx_tile /proc/cpuinfo; } # as torch.cpu._is_amx_tile_supported, which vLLM asks
need_amx() { has_amx || cannot "this CPU has no AMX: without it vLLM computes GPTQ layers in W4A16 anyway, and there is no other format to go to"; }
GPTQ='vLLM GPTQ (W4A8)'
has_amx || GPTQ='vLLM GPTQ (W4A16: no AMX)'

# vllm_command MODEL PORT OPTIONS...: sets COMMAND. Greedy by the model's own
# generation_config.json; compiling is off, else the first request with logprobs takes 15 s.
vllm_command() {
    COMMAND=(env HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_CPU_KVCACHE_SPACE=1 TORCH_COMPILE_DISABLE=1
        VLLM_CACHE_ROOT="$VLLM/cache" XDG_CACHE_HOME="$VLLM/cache" XDG_CONFIG_HOME="$VLLM/cache"
        "$VLLM/venv/bin/python" "$VLLM/venv/bin/vllm" serve "$VLLM/models/$1" --host 127.0.0.1 --port "$2" --served-model-name smollm2
        --dtype bfloat16 --max-model-len 1024 --enforce-eager --max-num-seqs 4 --seed 0 --enable-scale-out --enable-request-id-headers "${@:3}")
}

serve_vllm() { serve_vllm_env - "$@"; } # MODEL OPTIONS...

serve_vllm_env() { # NAME=VALUE, or - for none; MODEL OPTIONS...
    local port
    need vllm
    port=$(free_port) || exit 1
    vllm_command "$2" "$port" "${@:3}"
    [ "$1" = - ] || COMMAND=(env "$1" "${COMMAND[@]}")
    serve "vllm-$2" "$port" 900 "${COMMAND[@]}"
}

# recording_vllm MODEL OPTIONS...: with the tap in the server, recorded once in a run of live.sh;
# sets FIXTURE
recording_vllm() {
    local port
    FIXTURE=$WORK/vllm-$1
    [ -f "$FIXTURE/manifest.json" ] && return
    need vllm
    port=$(free_port) || exit 1
    vllm_command "$1" "$port"
    record_to "$FIXTURE" --server "127.0.0.1:$port" --suite quick --repeat 5 --timeout 900 "${@:2}" --run -- "${COMMAND[@]}"
}
gptq() { recording_vllm gptq4; }
bf16() { recording_vllm bf16 --concurrency 4 --gemms off; }

PY=$VLLM/venv/bin/python # the build whose kernels run the ops
OPS=400

row_vllm_gptq_same() {
    row "$GPTQ" 'same, restarted' pass
    need_avx512
    gptq
    serve_vllm gptq4
    judge "$FIXTURE" --server "$URL" --build "$PY" --max-ops $OPS --lanes tokens,collapse,ops
    want 'tokens +pass +all' 'tokens'
    want 'all are bit-equal' 'ops'
}

row_vllm_w4a16() {
    row 'vLLM GPTQ (W4A8)' 'VLLM_CPU_INT4_W4A8=0 (W4A16): another format' inconclusive
    need_avx512
    need_amx
    gptq
    serve_vllm_env VLLM_CPU_INT4_W4A8=0 gptq4
    judge "$FIXTURE" --server "$URL" --build "$PY" --build-env VLLM_CPU_INT4_W4A8=0 --max-ops $OPS --lanes tokens,collapse,ops --keep "$WORK/kept-w4a16"
    want 'computed in another format' 'each by its own reference'
    want 'distance to exact arithmetic' 'both distances'
    want 'tokens +inconclusive' 'tokens fork'
}

row_vllm_w4a16_accepted() {
    row 'vLLM GPTQ (W4A8)' 'the same, with a policy that accepts the change' pass
    need_avx512
    need_amx
    [ -d "$WORK/kept-w4a16/candidate-0" ] || die "its replay is that of row w4a16, which did not end (ONLY=w4a16 runs both)"
    FIXTURE=$WORK/vllm-gptq4
    echo '{"name": "accept", "numerics": {"accept_format_change": true}}' >"$ROW.policy.json"
    compare "$FIXTURE" "$WORK/kept-w4a16/candidate-0" --lanes ops --policy "$ROW.policy.json"
    want 'ops +pass' 'ops'
}

row_vllm_bf16_concurrent() {
    row 'vLLM bf16' 'same, restarted, concurrency 4' pass
    bf16
    serve_vllm bf16
    judge "$FIXTURE" --server "$URL"
    want 'tokens +pass'
    want 'scores +pass +teacher-forced' 'scores'
    want '^ +new +[0-9]+ +[0-9]+ ' 'prompts with a fork'
    want 'old against itself' 'the recorded floor'
}

row_vllm_gptq_avx2() {
    if has_avx512; then
        row "$GPTQ" 'on a machine with AVX2 only (simulated)' regressed
        gptq
        mkdir -p "$ROW.site" && cp "$HERE/avx2_only.py" "$ROW.site/sitecustomize.py"
        export PYTHONPATH="$ROW.site${PYTHONPATH:+:$PYTHONPATH}" ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 # of this row's subshell
    else
        # GPTQ was never recorded here: bf16 of the same model under the same name is what the users had before
        row 'vLLM bf16 (no GPTQ here)' 'GPTQ on a machine with AVX2 only (real)' regressed
        bf16
    fi
    serve_vllm gptq4
    judge "$FIXTURE" --server "$URL"
    want 'health' 'the engine is dead while /health says 200'
}
