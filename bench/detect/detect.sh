#!/usr/bin/env bash
# detect.sh - which lane sees which planted bug: every one of demo/bugs, and the honest builds, once through the gate, on a live server.
# How small a fault is found, and how often a right build raises an alarm: power.py.
# Prints a table; the last line: "caught A/B bugs". A bug counts as caught by exit 1 only.
#   ONLY='a b'  only these builds
# SPDX-License-Identifier: Apache-2.0
set -u
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BIN=${BIN:-$ROOT/bin} LIB=${LIB:-$ROOT/lib}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/tapedeck-detect.XXXXXX")
server=
stop() { [ -n "$server" ] && kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; server=; }
trap 'stop; rm -rf "$WORK"' EXIT

serve() { # $1 folder of libtdkernels.so  $2 checkpoint; sets url
    stop
    : >"$WORK/out" # or the last server's line is read before the new one starts
    LD_LIBRARY_PATH=$1 "$BIN/demo-server" --model "$ROOT/demo/checkpoints/$2" --served-model-name "$2" --port 0 >"$WORK/out" 2>"$WORK/err" &
    server=$!
    url=
    for _ in $(seq 200); do
        url=$(sed -n 's/^listening on http:\/\///p' "$WORK/out")
        [ -n "$url" ] && return
        sleep 0.05
    done
    echo "detect: the server did not start: $(tail -n 1 "$WORK/err")" >&2
    exit 1
}
gate() { # $1 build's folder  $2 checkpoint  more options; leaves report.json; returns gate's exit code
    local build=$1 ck=$2
    shift 2
    serve "$build" "$ck"
    "$BIN/gate" "$WORK/$ck" --server "$url" --build "$build/libtdkernels.so" --baseline-build "$LIB/libtdkernels.so" \
        --lanes tokens,collapse,scores,ops,speed --json "$WORK/report.json" "$@" >"$WORK/gate.out" 2>"$WORK/gate.err"
}
lane() { # verdict of a lane in report.json, short
    python3 - "$WORK/report.json" "$1" <<'PY'
import json, sys
try:
    v = json.load(open(sys.argv[1]))["lanes"][sys.argv[2]]
    print({"pass": "-", "regressed": "**caught**"}.get(v["verdict"], v["verdict"]) if v["asked"] else "not judged")
except Exception as e:
    print("?")
PY
}
figure() { # the last line without its head
    tail -n 1 "$WORK/gate.out" | sed 's/^verdict: //'
}

for ck in gptq4 gptq8 gptq4-act; do # one recording of the good build each, as a user would make it
    serve "$LIB" "$ck"
    port=${url##*:}
    stop
    "$BIN/record" --server "127.0.0.1:$port" -o "$WORK/$ck" --suite quick --repeat 5 \
        --run -- "$BIN/demo-server" --model "$ROOT/demo/checkpoints/$ck" --served-model-name "$ck" --port "$port" >"$WORK/record.out" 2>&1 ||
        { cat "$WORK/record.out" >&2; exit 1; }
done

# name:checkpoint; a bug is tried where its kernel path is used
cases='fp16_overflow:gptq4 zero_off_by_one:gptq4 scale_group_boundary:gptq4 column_tail:gptq4 tile_index:gptq4 no_clear:gptq4
last_k_nibbles:gptq4 lost_update:gptq4 k_slice_lost:gptq4 k_slice_01pct:gptq4 unordered_f16:gptq4 act_order_ignored:gptq4-act bits8:gptq8 m_gt_1:gptq4 scale_1pct:gptq4 zero_term_01pct:gptq4
truncate:gptq4 zeros_g128:gptq4 column_4th:gptq4 scales_bf16_f16:gptq4 slow_10pct:gptq4'
honest='honest_nofma:gptq4 honest_sumorder:gptq4 unordered:gptq4 honest_halves:gptq4'
row() { # $1 name:checkpoint
    local name=${1%%:*} ck=${1##*:} rc
    gate "$LIB/bugs/$name" "$ck"
    rc=$?
    printf '| `%s` | %s | %s | %s | %s | %s | %s | %s | %s |\n' "$name" "$ck" "$(lane tokens)" "$(lane collapse)" "$(lane scores)" "$(lane ops)" "$(lane speed)" \
        "$rc" "$(figure)"
    return $rc
}
is_asked() { [ -z "${ONLY:-}" ] || [[ " $ONLY " == *" ${1%%:*} "* ]]; }
echo '| build | checkpoint | tokens | collapse | scores | ops | speed | exit | verdict line |'
echo '|---|---|---|---|---|---|---|---|---|'
caught=0 bugs=0
for c in $cases; do
    is_asked "$c" || continue
    bugs=$((bugs + 1))
    row "$c"
    [ $? = 1 ] && caught=$((caught + 1))
done
for c in $honest; do # one that is really slower than the good build fails on speed
    is_asked "$c" && row "$c"
done
echo "caught $caught/$bugs bugs"
