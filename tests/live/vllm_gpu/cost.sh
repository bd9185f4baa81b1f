# shellcheck shell=bash disable=SC2154
# cost.sh - for vllm_gpu.sh: stages that measure what the tap costs.
# SPDX-License-Identifier: Apache-2.0

# A model of the sizes of one of 8B, LAYERS=8 of them, in the folder model-large
large_model() {
    [ -e "$WORK/model-large/config.json" ] ||
        "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-large" --hidden 4096 --ffn 14336 --layers "${LAYERS:-8}" --same-layers
}

# PAIRS=0: only how long the tap worked in the server's threads until it was armed
stage_start() {
    large_model || { wrong "start: no model"; return; }
    local begun=$SECONDS
    TAP=1 serve start model-large ${EAGER---enforce-eager} || { end_server; return; }
    say "start: with the tap listens after $((SECONDS - begun)) s"
    rm -rf "$WORK/start"
    "$BIN/record" --server "127.0.0.1:$PORT" -o "$WORK/start" --suite quick --repeat 1 -n 4 --gemms auto >"$WORK/start.record.txt" 2>&1 || wrong "start: record: exit $?"
    end_server
    "$PYTHON" -c 'import json, sys
us = json.load(open(sys.argv[1]))["ledger"]["start.tap_us"]["n"]
print(f"start: the tap worked {us / 1000:.1f} ms in the threads of the server before it was armed")' "$WORK/start/manifest.json" 2>&1 | tee -a "$WORK/table.txt"
    [ "${PAIRS:-3}" != 0 ] || return
    vllm model-large "$PORT" ${EAGER---enforce-eager}
    # shellcheck disable=SC2046 # a word each
    "$PYTHON" "$HERE/server_start.py" "${PAIRS:-3}" "$PORT" "$WORK/start.server.log" $("$BIN/record" --tap-env | sed "s/^export //; s/'//g") \
        -- "${COMMAND[@]}" 2>&1 | tee -a "$WORK/table.txt"
    [ "${PIPESTATUS[0]}" = 0 ] || wrong start
}

stage_cost() {
    need model4 model || return
    PYTHON=$PYTHON MODEL=$WORK/model4 BIN=$BIN LIB=$LIB STREAMS=1 BENCH_SECONDS=${BENCH_SECONDS:-360} BENCH_KEEP=${BENCH_KEEP:-$WORK/cost} \
        bash "$ROOT/bench/tap/run.sh" vllm_gpu "${ROUNDS:-120}" | tee -a "$WORK/table.txt"
}

# What twins cost a vLLM at its defaults: a small model, the worst case, and the sizes of one of 8B
# (LAYERS=8 of them). ONE=small or large: that alone
stage_twin-cost() {
    local model seconds=${BENCH_SECONDS:-240}
    for model in ${ONE:-small large}; do
        if [ $model = large ]; then
            large_model
        else
            [ -e "$WORK/model-small/config.json" ] || "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-small" --layers 4
        fi || { wrong "twin-cost: no model"; return; }
        say "twin-cost: $model"
        GRAPHS=1 BACKEND=auto PYTHON=$PYTHON MODEL=$WORK/model-$model BIN=$BIN LIB=$LIB STREAMS=1 BENCH_SECONDS=$seconds \
            BENCH_KEEP=${BENCH_KEEP:-$WORK/twin-cost}/$model MODES="${MODES:-asleep again,sample,everything}" \
            bash "$ROOT/bench/tap/run.sh" vllm_gpu "${ROUNDS:-120}" 2>&1 | tee -a "$WORK/table.txt"
    done
}
