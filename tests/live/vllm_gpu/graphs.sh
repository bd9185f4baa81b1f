# shellcheck shell=bash disable=SC2154
# graphs.sh - for vllm_gpu.sh: stages with CUDA graphs.
# SPDX-License-Identifier: Apache-2.0

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
    TD_TAP_TWINS=0 record_server graphs-unseen model4 --linear-backend exllama --compilation-config "$sizes"
    grep -q 'whose GEMMs were not seen' "$WORK/graphs-unseen.record.txt" || wrong "graphs-unseen: the report does not name the graphs"
}

# vLLM at its defaults, seen by twins of its graphs. The server's answers are those of a server
# without the tap.
stage_twins() {
    need model4 model || return
    EAGER='' operator_form twins-machete machete_mm
    EAGER='' BACKEND=marlin operator_form twins-marlin marlin_gemm
    EAGER='' torch_form twins-float none --bits 16 --bias
    [ -e "$WORK/twins-machete/manifest.json" ] || return
    gate_server twins-untapped twins-machete model-twins-machete
    [ $rc = 0 ] || wrong "twins-untapped: exit $rc, expected 0"
}

# vLLM at its defaults, whose traffic is captured beside its tap. The answers are judged by the same server, the ops by our kernels
# and by the same operators, with and without a fault in them.
stage_passive() {
    need model4 model || return
    local log=$WORK/passive.record.txt judge=(--lanes ops --max-ops 120) recorder i
    TAP=1 serve passive model4 || { end_server; return; }
    "$PYTHON" "$HERE/ask_others.py" "127.0.0.1:$PORT" 1 m || wrong "passive: no answer" # a tap is found once its server has computed something
    rm -rf "$WORK/passive"
    "$BIN/record" --passive --server "127.0.0.1:$PORT" --interface lo --gemms all --checkpoint "$WORK/model4" -o "$WORK/passive" >"$log" 2>&1 &
    recorder=$!
    for i in $(seq 300); do grep -q listening "$log" && break; kill -0 $recorder 2>/dev/null || break; sleep 0.1; done
    "$PYTHON" "$HERE/ask_others.py" "127.0.0.1:$PORT" 12 m || wrong "passive: no answers"
    sleep 1
    kill -INT $recorder
    wait $recorder || { tail -n 12 "$log"; wrong "passive: record: exit $?"; }
    expect 0 passive-answers gate "$WORK/passive" --server "127.0.0.1:$PORT" --lanes tokens,collapse
    end_server
    "$PYTHON" "$HERE/captured_ops.py" "$WORK/passive" 12 m 2>&1 | tee -a "$WORK/table.txt"
    [ "${PIPESTATUS[0]}" = 0 ] || wrong passive
    expect 0 passive-cpu gate "$WORK/passive" "${judge[@]}" --provider cpu --only _proj
    expect 0 passive-itself gate "$WORK/passive" "${judge[@]}" --build "$(command -v "$PYTHON")"
    expect 1 passive-fault gate "$WORK/passive" "${judge[@]}" --build "$(command -v "$PYTHON")" --only _proj --build-env TD_FAULT=column \
        --build-env "PYTHONPATH=$HERE/faulty_torch:${PYTHONPATH:-}"
}

# As stage ledger, at vLLM's defaults. Steps run from twins of graphs, which hold rows of padding too.
stage_ledger-default() {
    need model4 model || return
    RECORD="-c 1 --ignore-eos" record_server ledger-default model4 || return
    rm -rf "$WORK/ledger-default.out"
    "$BIN/fixture" export "$WORK/ledger-default" "$WORK/ledger-default.out" >/dev/null || { wrong "fixture export"; return; }
    truth ledger-default-steps steps "$WORK/ledger-default.out" 17
    say "ledger-default: how the rows of steps were assigned: $(grep -oh '"how":"[a-z]*"' "$WORK/ledger-default.out/steps.jsonl" | sort | uniq -c | tr '\n' ' ')"
    truth ledger-default-torch torch "$WORK/ledger-default.out" "$WORK/model4"
}

# MINUTES of an open server at vLLM's defaults, with changing load, arms and kills of the recorder, and
# beside it, on the same GPU, one without the tap with the same load. The answers are those of the
# latter, and so is the growth of memory.
stage_open() {
    need model4 model || return
    local other=$((PORT + 1)) other_server
    PORT=$other serve open-untapped model4 || { end_server; return; }
    other_server=$server
    "$PYTHON" "$HERE/open_server.py" answers "$other" "$WORK/open.json" || wrong "open: no answers"
    if TAP=1 serve open model4; then
        "$PYTHON" "$HERE/open_server.py" watch "$PORT" "$server" "$other" "$other_server" "$WORK/open.json" "${MINUTES:-30}" "$BIN/record" "$WORK" \
            --checkpoint "$WORK/model4" 2>&1 | tee -a "$WORK/table.txt"
        [ "${PIPESTATUS[0]}" = 0 ] || wrong open
    fi
    end_server
    server=$other_server
    end_server
}

# The same, detached: where a command has a limit of minutes, and what it leaves running has none.
stage_open-start() {
    need model4 model || return
    rm -f "$WORK"/open.{log,rc,so-far}
    # shellcheck disable=SC2016 # $0 and $1 are those of the new shell
    setsid bash -c 'bash "$0" open >"$1/open.log" 2>&1 </dev/null; echo $? >"$1/open.rc"' "$HERE/vllm_gpu.sh" "$WORK" >/dev/null 2>&1 </dev/null &
    say "open-start: MINUTES=${MINUTES:-30} begin; see stage open-wait"
}

# Show how far it is, after WAIT seconds at most (0: at once).
stage_open-wait() {
    local until=$((SECONDS + ${WAIT:-0}))
    while [ ! -e "$WORK/open.rc" ] && [ $SECONDS -lt $until ]; do sleep 2; done
    if [ -e "$WORK/open.rc" ]; then
        cat "$WORK/open.log"
        [ "$(cat "$WORK/open.rc")" = 0 ] || wrong "open: exit $(cat "$WORK/open.rc")"
    else
        cat "$WORK/open.log" "$WORK/open.so-far" 2>/dev/null
        say "open: not over yet"
    fi
}

# The share of kernels in the GPU's time, at vLLM's defaults, in one server: a recording without the
# window, two with it, one without. The window must not change the answers, nor the speed that comes
# after it (compare the lines "timed" of the first and the last).
stage_gpu-time() {
    local n window
    [ -e "$WORK/model-gpu-time" ] || "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-gpu-time" || { wrong "gpu-time: no model"; return; }
    rm -rf "$WORK"/gpu-time-[1-4]
    TAP=1 serve gpu-time model-gpu-time || return
    for n in 1 2 3 4; do
        window=on
        case $n in 1 | 4) window=off ;; esac
        "$BIN/record" --server "127.0.0.1:$PORT" -o "$WORK/gpu-time-$n" --suite "$SUITE" -c 1 -n "$TOKENS" --checkpoint "$WORK/model-gpu-time" --gpu-time $window >"$WORK/gpu-time-$n.record.txt" 2>&1 ||
            wrong "gpu-time-$n: record: exit $?"
        say "gpu-time-$n: window $window"
        grep -E '^(timed|ops|gpu|kernels| )|warning' "$WORK/gpu-time-$n.record.txt" | tee -a "$WORK/table.txt"
    done
    kill -0 "$server" 2>/dev/null || wrong "gpu-time: the server is gone"
    end_server
    "$BIN/fixture" show -a "$WORK/gpu-time-3" | sed -n "/^GPU's time/,/^\$/p" | tee -a "$WORK/table.txt"
    "$PYTHON" - "$WORK/gpu-time-3/manifest.json" <<'LOOK' || wrong "gpu-time: no kernel of a recorded op has a share"
import json, sys
t = json.load(open(sys.argv[1]))["tap"]["gpu_time"]
sys.exit(not any(k["seen"] == "recorded" and k["ms"] > 0 for k in t["kernels"]))
LOOK
    expect 0 gpu-time-answers differ "$WORK/gpu-time-1" "$WORK/gpu-time-4" --lanes tokens,collapse
}

# What the copies in graphs cost: two servers side by side, asked in turn.
stage_nodes() {
    need model4 model || return
    GRAPHS=1 TD_TAP_DIR=$WORK/run "$PYTHON" "$ROOT/bench/tap/nodes.py" "$PYTHON" "$WORK/model4" "$LIB/libtapedeck-tap.so" "${ROUNDS:-120}" | tee -a "$WORK/table.txt"
}
