# shellcheck shell=bash disable=SC2154
# servers.sh - for vllm_gpu.sh: start a vLLM with or without the tap, record it, judge it.
# SPDX-License-Identifier: Apache-2.0

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

# serve NAME MODEL OPTIONS OF vllm...: start a server (TAP=1: with the tap), wait until it listens;
# sets server
serve() {
    local name=$1 i
    server=
    if (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null; then
        wrong "$name: another server listens on port $PORT"
        return 1
    fi
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
    [ -n "${server:-}" ] || return 0
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

# truth NAME ARGUMENTS...: run gpu_truth.py and put its findings into the table
truth() {
    "$PYTHON" "$HERE/gpu_truth.py" "${@:2}" >"$WORK/$1.txt" 2>&1 || wrong "$1"
    grep -E '^(holds|WRONG|[A-Za-z.]*Error)' "$WORK/$1.txt" | tee -a "$WORK/table.txt"
}
