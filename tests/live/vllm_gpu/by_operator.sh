# shellcheck shell=bash disable=SC2154
# by_operator.sh - for vllm_gpu.sh: stages that see products where torch dispatches them, or at cuBLAS.
# SPDX-License-Identifier: Apache-2.0

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

# Others of cuBLAS's algorithms are right, whichever is the baseline.
stage_other-cublas() {
    need float cublas || return
    local how real
    real=$(cublas)
    ${CC:-cc} -shared -fPIC -I "$ROOT" "$HERE/other_cublas.c" -Wl,--no-as-needed "$real" -o "$WORK/other_cublas.so" || { wrong "other_cublas.c does not build"; return; }
    for how in workspace pedantic halves second wrong; do
        local other=("TD_CUBLAS_LIBRARY=$WORK/other_cublas.so" "OTHER_CUBLAS=$how")
        expect $([ $how = wrong ] && echo 1 || echo 0) "other-cublas-$how" gate "$WORK/float" --build "$(library)" --build-env "${other[0]}" --build-env "${other[1]}" --lanes ops
        grep 'bit-equal' "$WORK/other-cublas-$how.txt" | tee -a "$WORK/table.txt"
        [ $how != wrong ] || continue
        expect 0 "other-cublas-$how-before" gate "$WORK/float" --baseline-build "$(library)" --baseline-env "${other[0]}" --baseline-env "${other[1]}" \
            --build "$(library)" --build-env "TD_CUBLAS_LIBRARY=$real" --lanes ops
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
# provider torch. OPERATOR: the one that the faults are in; none: torch's linear, which asks cuBLAS
torch_form() {
    local name=torch-$1 operator=$2 fault other
    local judge=(--lanes ops --max-ops "${MAX_OPS:-160}" --build "$(command -v "$PYTHON")")
    [[ $name == *${FORMS:-}* ]] || return 0
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-$name" "${@:3}" || { wrong "$name: no model"; return; }
    record_server "$name" "model-$name" ${EAGER---enforce-eager} || return
    "$BIN/fixture" show "$WORK/$name" ledger | grep -E 'ops|launches' | tee -a "$WORK/table.txt"
    expect 0 "$name-itself" gate "$WORK/$name" "${judge[@]}"
    grep -E 'bit-equal|largest|worst' "$WORK/$name-itself.txt" | head -n 4 | tee -a "$WORK/table.txt"
    expect 0 "$name-cpu" gate "$WORK/$name" --lanes ops --max-ops "${MAX_OPS:-80}" --provider cpu --only _proj
    for fault in column row; do
        expect 1 "$name-fault-$fault" gate "$WORK/$name" "${judge[@]}" --only _proj --build-env "TD_FAULT=$fault" --build-env "PYTHONPATH=$HERE/faulty_torch:${PYTHONPATH:-}"
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
    torch_form eight machete_mm --bits 8
    torch_form one-group machete_mm --group -1
    torch_form float-plain none --bits 16
    DTYPE=bfloat16 torch_form float-bf16 none --bits 16
    DTYPE=bfloat16 torch_form float-bf16-bias none --bits 16 --bias
}

graphs() { [ "${EAGER-eager}" ] || echo graphs; } # EAGER=: the server runs CUDA graphs

# operator_form NAME OPERATOR OPTIONS OF random_gptq.py...: what vLLM multiplies with by that operator
# (BACKEND: --linear-backend; else its default). Each call must be an op with a layer's name; provider
# torch must pass from the same Python, cpu too, and a fault in the operator must be caught. (EAGER=:
# with CUDA graphs)
operator_form() {
    local name=$1 operator=$2 fault
    local most=${MAX_OPS:-80}
    local judge=(--lanes ops --max-ops "$most" --build "$(command -v "$PYTHON")")
    [[ $name == *${FORMS:-}* ]] || return 0
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-$name" "${@:3}" || { wrong "$name: no model"; return; }
    record_server "$name" "model-$name" ${EAGER---enforce-eager} ${BACKEND:+--linear-backend "$BACKEND"} || return
    "$BIN/fixture" show "$WORK/$name" ledger | grep -E 'ops|launches' | tee -a "$WORK/table.txt"
    "$BIN/fixture" ops "$WORK/$name" --json | "$PYTHON" "$HERE/operator_ops.py" "$WORK/$name" "_C::$operator" 4 $(graphs) 2>&1 | tee -a "$WORK/table.txt"
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

# AWQ's own operators, which vLLM takes where no other kernel takes a layer, as with groups of 256
# (check_marlin_supported): awq_gemm, and for 256 rows and more awq_dequantize with torch's product.
stage_awq-op() {
    local fault op before=$SUITE ops=(awq_gemm awq_dequantize)
    [ -n "${MAX_OPS:-}" ] || local MAX_OPS=120
    [ -z "$(graphs)" ] || ops=(awq_dequantize) # compiled, vLLM takes this one for all sizes
    "$PYTHON" -c 'import json
for n in (1, 12, 60):
    print(json.dumps({"id": f"times-{n}", "prompt": "the quick brown fox jumps " * n}))' >"$WORK/long.jsonl" # 60 are 300 words, and fewer tokens than 2048 of a byte
    SUITE=$WORK/long.jsonl
    seen_form awq-op "${ops[0]}" "" --awq --fine --group 256
    SUITE=$before
    [ -e "$WORK/awq-op/manifest.json" ] || return
    "$BIN/fixture" ops "$WORK/awq-op" --json | "$PYTHON" "$HERE/seen_ops.py" "$WORK/awq-op" awq_dequantize | tail -n 1
    [ "${PIPESTATUS[1]}" = 0 ] || wrong "awq-op: products behind awq_dequantize"
    for op in "${ops[@]}"; do
        for fault in column row; do
            expect 1 "awq-op-$op-$fault" gate "$WORK/awq-op" --lanes ops --max-ops "$MAX_OPS" --build "$(command -v "$PYTHON")" --only "$op" \
                --build-env "TD_FAULT=$fault" --build-env "TD_OPERATORS=$op" --build-env "PYTHONPATH=$HERE/faulty_torch:${PYTHONPATH:-}"
        done
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
    local name=moe-$1 fault only=(--only moe_gemm)
    local judge=(--lanes ops --max-ops "${MAX_OPS:-160}")
    [[ $name == *${FORMS:-}* ]] || return 0
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-$name" --experts 8 --ffn 768 "${@:2}" || { wrong "$name: no model"; return; }
    record_server "$name" "model-$name" ${EAGER---enforce-eager} || return
    grep -oE "Using '?[A-Za-z0-9_ ]*'? (WNA16|Unquantized) MoE backend" "$WORK/$name.server.log" 2>/dev/null | sort -u | tee -a "$WORK/table.txt"
    grep -E '^ *(torch|kernels|weights)' "$WORK/$name.record.txt" | tee -a "$WORK/table.txt"
    "$BIN/fixture" show "$WORK/$name" ledger | grep -E 'ops|weights|launches' | tee -a "$WORK/table.txt"
    "$BIN/fixture" ops "$WORK/$name" --json | "$PYTHON" "$HERE/moe_ops.py" "$WORK/$name" "$WORK/model-$name" $(graphs) 2>&1 | tee -a "$WORK/table.txt"
    [ "${PIPESTATUS[1]}" = 0 ] || wrong "$name"
    expect 0 "$name-itself" gate "$WORK/$name" "${judge[@]}" --build "$(command -v "$PYTHON")"
    grep -E 'bit-equal|largest|worst' "$WORK/$name-itself.txt" | head -n 4 | tee -a "$WORK/table.txt"
    expect 0 "$name-cpu" gate "$WORK/$name" "${judge[@]}" --provider cpu
    [ "$1" != float ] || only=() # its experts are Triton's: the fault is in torch's products
    for fault in column row; do
        expect 1 "$name-fault-$fault" gate "$WORK/$name" "${judge[@]}" --build "$(command -v "$PYTHON")" "${only[@]}" --build-env "TD_FAULT=$fault" \
            --build-env "PYTHONPATH=$HERE/faulty_torch:${PYTHONPATH:-}"
    done
}

has_moe() { # STAGE
    "$PYTHON" -c 'import glob, importlib.util, os, sys
sys.exit(not glob.glob(os.path.join(os.path.dirname(importlib.util.find_spec("vllm").origin), "_moe_C*.so")))' ||
        { wrong "$1: this vLLM has no _moe_C library (moe.tar.xz, unpacked over it)"; return 1; }
}

stage_moe() {
    has_moe moe || return
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
    record_server "$name" "model-$name" ${EAGER---enforce-eager} $options || return
    grep '^torch' "$WORK/$name.record.txt" | tee -a "$WORK/table.txt"
    "$BIN/fixture" show "$WORK/$name" ledger | grep -E '^(weights|ops|launches)' | tee -a "$WORK/table.txt"
    "$BIN/fixture" ops "$WORK/$name" --json | "$PYTHON" "$HERE/scaled_ops.py" "$WORK/$name" "_C::$operator" 4 $(graphs) 2>&1 | tee -a "$WORK/table.txt"
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
    eight_form fp8-static cutlass_scaled_mm "" --eight static
}

# seen_form NAME OPERATOR "OPTIONS OF vllm" OPTIONS OF random_gptq.py...: what vLLM does with one call of
# OPERATOR at least; all that was recorded passes by the same Python, its GEMMs by cpu
seen_form() {
    local name=$1 operator=$2 options=$3 fault
    local judge=(--lanes ops --max-ops "${MAX_OPS:-160}")
    [[ $name == *${FORMS:-}* ]] || return 0
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-$name" "${@:4}" || { wrong "$name: no model"; return; }
    # shellcheck disable=SC2086 # options, a word each
    record_server "$name" "model-$name" ${EAGER---enforce-eager} $options || return
    grep -E '^ *(torch|kernels|weights|unseen)|warning' "$WORK/$name.record.txt" | tee -a "$WORK/table.txt"
    "$BIN/fixture" show "$WORK/$name" ledger | grep -E '^(weights|ops|launches)' | tee -a "$WORK/table.txt"
    "$BIN/fixture" ops "$WORK/$name" --json | "$PYTHON" "$HERE/seen_ops.py" "$WORK/$name" "$operator" 2>&1 | tee -a "$WORK/table.txt"
    [ "${PIPESTATUS[1]}" = 0 ] || wrong "$name"
    expect 0 "$name-itself" gate "$WORK/$name" "${judge[@]}" --build "$(command -v "$PYTHON")"
    grep -E 'bit-equal|largest|worst' "$WORK/$name-itself.txt" | head -n 4 | tee -a "$WORK/table.txt"
    expect 0 "$name-cpu" gate "$WORK/$name" "${judge[@]}" --provider cpu --only _proj # what stands beside products has no cpu kernel
    grep -E 'largest|worst|refused' "$WORK/$name-cpu.txt" | head -n 4 | tee -a "$WORK/table.txt"
    [[ $operator == *_mm* || $operator == cublas* ]] || return # stage_seen has faults for those beside products
    for fault in column row; do
        expect 1 "$name-fault-$fault" gate "$WORK/$name" "${judge[@]}" --build "$(command -v "$PYTHON")" --only "$operator" --build-env "TD_FAULT=$fault" \
            --build-env "PYTHONPATH=$HERE/faulty_torch:${PYTHONPATH:-}"
    done
}

stage_seen() {
    local fault op
    RECORD="--all-ops ${RECORD:-}" seen_form all-ops _C::rms_norm ""
    if [ -e "$WORK/all-ops/manifest.json" ]; then
        "$BIN/fixture" ops "$WORK/all-ops" --json | "$PYTHON" "$HERE/seen_ops.py" "$WORK/all-ops" reshape_and_cache_flash | tail -n 1
        [ "${PIPESTATUS[1]}" = 0 ] || wrong "all-ops: rows of a cache"
        for op in rms_norm fused_add_rms_norm rotary_embedding silu_and_mul reshape_and_cache_flash; do
            for fault in column row; do
                expect 1 "all-ops-$op-$fault" gate "$WORK/all-ops" --lanes ops --max-ops 80 --build "$(command -v "$PYTHON")" --only "$op" \
                    --build-env "TD_FAULT=$fault" --build-env "TD_OPERATORS=$op" --build-env "PYTHONPATH=$HERE/faulty_torch:${PYTHONPATH:-}"
            done
        done
    fi
    RECORD="--all-ops ${RECORD:-}" seen_form all-ops-fp8 _C::dynamic_per_token_scaled_fp8_quant "" --eight tensor
    RECORD="--all-ops ${RECORD:-}" seen_form all-ops-static _C::static_scaled_fp8_quant "" --eight static
    RECORD="--all-ops ${RECORD:-}" seen_form all-ops-int8 _C::dynamic_scaled_int8_quant "" --eight int8
    RECORD="--all-ops ${RECORD:-}" seen_form all-ops-act-order _C::permute_cols "" --act-order
    [ ! -e "$WORK/all-ops-act-order/manifest.json" ] ||
        for fault in column row; do
            expect 1 "permute-cols-fault-$fault" gate "$WORK/all-ops-act-order" --lanes ops --max-ops 80 --build "$(command -v "$PYTHON")" --only permute_cols \
                --build-env "TD_FAULT=$fault" --build-env "TD_OPERATORS=permute_cols" --build-env "PYTHONPATH=$HERE/faulty_torch:${PYTHONPATH:-}"
        done
    seen_form fp8-torch cublasLtMatmul "--linear-backend torch" --eight static
    seen_form moe-fp8 cutlass_moe_mm "--moe-backend cutlass" --experts 8 --ffn 768 --eight channel
}

# FP8 in blocks of 128 at vLLM's defaults: DeepGEMM, which compiles its kernels at run time and announces
# no operator. It must be named among what was not recorded, with its launches and its share of the GPU's time.
stage_deep-gemm() {
    "$PYTHON" -c 'import vllm.third_party.deep_gemm' 2>"$WORK/deep-gemm.import.txt" ||
        { tail -n 3 "$WORK/deep-gemm.import.txt"; wrong "deep-gemm: this vLLM has no DeepGEMM (third_party/deep_gemm of its wheel, unpacked over it)"; return; }
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-deep-gemm" --eight block || { wrong "deep-gemm: no model"; return; }
    DTYPE=bfloat16 VLLM_DEEP_GEMM_WARMUP=skip DG_JIT_CACHE_DIR=$WORK/deep-gemm-cache RECORD="--gpu-time on" record_server deep-gemm model-deep-gemm ${EAGER---enforce-eager} || return
    sed -n '/^tapped/,$p' "$WORK/deep-gemm.record.txt" | tee -a "$WORK/table.txt"
    "$BIN/fixture" show -a "$WORK/deep-gemm" | sed -n "/^GPU's time/,/^\$/p" | tee -a "$WORK/table.txt"
    "$PYTHON" - "$WORK/deep-gemm/manifest.json" <<'LOOK' | tee -a "$WORK/table.txt"
import json, sys
tap = json.load(open(sys.argv[1]))["tap"]
time = tap.get("gpu_time", {})
mine = [k for k in time.get("kernels", []) if "fp8_gemm" in k["symbol"] or "deep_gemm" in k["symbol"]]
total = sum(k["ms"] for k in time.get("kernels", []))
print("deep-gemm: unread launches", tap.get("unread_gemms"), tap.get("unread_most"), "; in the GPU's time",
      sum(k["launches"] for k in mine), "launches,", f"{100 * sum(k['ms'] for k in mine) / max(total, 1e-9):.1f} %,", {k["seen"] for k in mine})
sys.exit(not mine or any(k["seen"] == "recorded" for k in mine))
LOOK
    [ "${PIPESTATUS[0]}" = 0 ] || wrong "deep-gemm is not named as unseen"
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

# exllama's operator adds in halves, Marlin's in float32: what Marlin gave is judged as exllama's baseline. Provider torch declares the
# halves, so right sums in halves stand beside it; a row of zeros lies outside of these, too.
stage_half-sums() {
    local judge=(--lanes ops --max-ops "${MAX_OPS:-240}" --build "$(command -v "$PYTHON")" --only _proj) fault rc
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-half-sums" --fine || { wrong "half-sums: no model"; return; }
    record_server half-sums model-half-sums --enforce-eager --linear-backend marlin || return
    expect 0 half-sums-itself gate "$WORK/half-sums" "${judge[@]}"
    expect 0 half-sums-exllama gate "$WORK/half-sums" "${judge[@]}" --as gptq_gemm
    grep -E 'in halves|largest|worst' "$WORK/half-sums-exllama.txt" | head -n 6 | tee -a "$WORK/table.txt"
    tr -s ' \n' ' ' <"$WORK/half-sums-exllama.txt" | grep -q 'keeps its sums in halves, as it declares' || wrong "half-sums: gptq_gemm declared no sums in halves"
    for fault in row column; do # a column that is 1 % too large lies within exllama's own errors: shown, and nothing is expected
        "$BIN/gate" "$WORK/half-sums" "${judge[@]}" --as gptq_gemm -v --build-env "TD_FAULT=$fault" --build-env "TD_OPERATORS=gptq_gemm" \
            --build-env "PYTHONPATH=$HERE/faulty_torch:${PYTHONPATH:-}" >"$WORK/half-sums-fault-$fault.txt" 2>&1
        rc=$?
        say "half-sums-fault-$fault: exit $rc  $(grep '^verdict:' "$WORK/half-sums-fault-$fault.txt")"
        [ $fault != row ] || [ $rc = 1 ] || wrong "half-sums-fault-row: exit $rc, expected 1"
    done
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

# rank_faults NAME FAULT...: provider torch passes on a recording of two ranks, and finds each fault
rank_faults() {
    local judge=(--lanes ops --max-ops "${MAX_OPS:-80}" --build "$(command -v "$PYTHON")") fault
    expect 0 "$1-torch" gate "$WORK/$1" "${judge[@]}"
    for fault in "${@:2}"; do
        expect 1 "$1-fault-$fault" gate "$WORK/$1" "${judge[@]}" --build-env "TD_FAULT=$fault" --build-env "PYTHONPATH=$HERE/faulty_torch:${PYTHONPATH:-}"
    done
}

stage_tensor() {
    need model4 model || return
    [ "$("$PYTHON" -c 'import torch; print(torch.cuda.device_count())')" -ge 2 ] || { say "tensor: skipped, one GPU"; return; }
    record_server tensor model4 ${EAGER---enforce-eager} --linear-backend exllama --tensor-parallel-size 2 || return
    "$BIN/fixture" show --all "$WORK/tensor" | grep -E 'rank' | head -n 6 | tee -a "$WORK/table.txt"
    expect 0 tensor-cpu gate "$WORK/tensor" --provider cpu --lanes ops
    expect 0 tensor-own-library gate "$WORK/tensor" --build "$(library)" --build-env "TD_CUBLAS_LIBRARY=$(cublas)" --lanes ops
    rank_faults tensor row
    # vLLM's default kernel, through its operator: each rank repacks its slices
    record_server tensor-machete model4 ${EAGER---enforce-eager} --tensor-parallel-size 2 || return
    "$BIN/fixture" show "$WORK/tensor-machete" ledger | grep -E '^(weights|ops)' | tee -a "$WORK/table.txt"
    expect 0 tensor-machete-cpu gate "$WORK/tensor-machete" --provider cpu --lanes ops --max-ops "${MAX_OPS:-80}"
    rank_faults tensor-machete column row
}

# direct_form NAME OPTIONS OF random_gptq.py...: moe_wna16_gemm, called by direct_experts.py without a server
direct_form() {
    local name=ops-direct-$1 python
    python=$(command -v "$PYTHON")
    local judge=(--lanes ops --max-ops "${MAX_OPS:-48}")
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-$name" --experts 8 --ffn 768 "${@:2}" || { wrong "$name: no model"; return; }
    rm -rf "${WORK:?}/$name"
    "$BIN/record" -o "$WORK/$name" --server "127.0.0.1:$PORT" --suite "$WORK/direct.jsonl" --repeat 1 -n 8 --timeout 120 --gemms all --checkpoint "$WORK/model-$name" \
        --run -- env EXPERTS_MODEL="$WORK/model-$name" "$PYTHON" "$ROOT/tests/fakes/fake_server.py" --port "$PORT" --seconds 300 --steps "$HERE/direct_experts.py" \
        >"$WORK/$name.record.txt" 2>&1 || { tail -n 12 "$WORK/$name.record.txt"; wrong "record $name"; return; }
    grep -E '^ *(ops|tap|torch|kernels|weights)|warning' "$WORK/$name.record.txt" | tee -a "$WORK/table.txt"
    "$BIN/fixture" verify "$WORK/$name" >>"$WORK/$name.record.txt" 2>&1 || wrong "fixture verify $name"
    "$BIN/fixture" ops "$WORK/$name" --json | "$PYTHON" "$HERE/direct_ops.py" "$WORK/$name" _moe_C::moe_wna16_gemm 4 2>&1 | tee -a "$WORK/table.txt"
    [ "${PIPESTATUS[1]}" = 0 ] || wrong "$name"
    expect 0 "$name-itself" gate "$WORK/$name" "${judge[@]}" --build "$python" --only moe_wna16_gemm
    grep -E 'bit-equal|largest|worst' "$WORK/$name-itself.txt" | head -n 4 | tee -a "$WORK/table.txt"
    expect 0 "$name-cpu" gate "$WORK/$name" "${judge[@]}" --provider cpu --only moe_wna16_gemm
    # a column that is 1 % too large is not caught: the operator adds halves, and its own errors are larger
    expect 1 "$name-fault-row" gate "$WORK/$name" "${judge[@]}" --build "$python" --only moe_wna16_gemm --build-env TD_FAULT=row \
        --build-env TD_OPERATORS=moe_wna16_gemm --build-env "PYTHONPATH=$HERE/faulty_torch:${PYTHONPATH:-}"
}

stage_ops-direct() {
    say "ops-direct: allspark_w8a16_gemm is not called: vLLM builds it for compute capability 8.0 to 8.9; this GPU has $("$PYTHON" -c 'import torch
print(*torch.cuda.get_device_capability(), sep=".")')"
    has_moe ops-direct || return
    "$PYTHON" -c 'import json
for rows in (1, 7, 24):
    print(json.dumps({"id": f"rows-{rows}", "prompt": " ".join(["word"] * rows)}))' >"$WORK/direct.jsonl"
    direct_form plain
    direct_form zeros --awq --fine
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
