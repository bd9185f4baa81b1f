# rows_vllm.sh - the matrix on vLLM without a GPU: one function a row (lib.sh says what they are made of). Sourced by live.sh.
# The model is the one of the llama.cpp rows, as bf16 and as GPTQ 4 bit (make_gptq.py). GPTQ needs AVX-512 here; rows that cannot run say so.
# SPDX-License-Identifier: Apache-2.0
VLLM=$CACHE/vllm

has_avx512() { grep -q -w avx512f /proc/cpuinfo && grep -q -w avx512bw /proc/cpuinfo; }
need_avx512() { has_avx512 || cannot "this CPU has no AVX-512, and vLLM's GPTQ kernels for CPUs (W4A8, W4A16) need it"; }

# vllm_command MODEL PORT OPTIONS...: sets COMMAND. Greedy by the model's own generation_config.json; compiling is off, else the first
# request with logprobs takes 15 s.
vllm_command() {
    COMMAND=(env HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_CPU_KVCACHE_SPACE=1 TORCH_COMPILE_DISABLE=1
        VLLM_CACHE_ROOT="$VLLM/cache" XDG_CACHE_HOME="$VLLM/cache" XDG_CONFIG_HOME="$VLLM/cache"
        "$VLLM/venv/bin/python" "$VLLM/venv/bin/vllm" serve "$VLLM/models/$1" --host 127.0.0.1 --port "$2" --served-model-name smollm2
        --dtype bfloat16 --max-model-len 1024 --enforce-eager --max-num-seqs 4 --seed 0 --enable-scale-out --enable-request-id-headers "${@:3}")
}

serve_vllm() { # MODEL OPTIONS...
    local port
    need vllm
    port=$(free_port) || exit 1
    vllm_command "$1" "$port" "${@:2}"
    serve "vllm-$1" "$port" 900 "${COMMAND[@]}"
}

# recording_vllm MODEL: recorded once in a run of live.sh; sets FIXTURE
recording_vllm() {
    FIXTURE=$WORK/vllm-$1
    [ -f "$FIXTURE/manifest.json" ] && return
    serve_vllm "$1"
    record_to "$FIXTURE" --server "$URL" --suite quick --concurrency 4 --repeat 5
    stop "$SERVER"
}

row_vllm_gptq_same() {
    row 'vLLM GPTQ (W4A8)' 'same, restarted' pass
    need_avx512
    recording_vllm gptq4
    serve_vllm gptq4
    judge "$FIXTURE" --server "$URL"
    want 'tokens=0/'
}

row_vllm_bf16_concurrent() {
    row 'vLLM bf16' 'same, restarted, concurrency 4' pass
    recording_vllm bf16
    serve_vllm bf16
    judge "$FIXTURE" --server "$URL"
    want 'tokens +pass'
    want 'candidate +[0-9]+ of' 'prompts with a fork'
    want 'baseline against itself' 'the recorded floor'
}

row_vllm_gptq_avx2() {
    local simulate=()
    if has_avx512; then
        row 'vLLM GPTQ (W4A8)' 'on a machine with AVX2 only (simulated)' regressed
        recording_vllm gptq4
        mkdir -p "$ROW.site" && cp "$HERE/avx2_only.py" "$ROW.site/sitecustomize.py"
        simulate=(env PYTHONPATH="$ROW.site" ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2)
    else
        # GPTQ was never recorded here: bf16 of the same model under the same name is what the users had before
        row 'vLLM bf16 (no GPTQ here)' 'GPTQ on a machine with AVX2 only (real)' regressed
        recording_vllm bf16
    fi
    local port
    need vllm
    port=$(free_port) || exit 1
    vllm_command gptq4 "$port"
    serve vllm-gptq4 "$port" 900 "${simulate[@]}" "${COMMAND[@]}"
    judge "$FIXTURE" --server "$URL"
    want 'health' 'the engine is dead while /health says 200'
}
