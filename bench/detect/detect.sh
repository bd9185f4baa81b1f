#!/usr/bin/env bash
# detect.sh - what catches what: every planted bug, the honest builds and RUNS unchanged runs through the gate, on a live
# server each time. Writes docs/detection.md (or OUT). The last line: "caught A/B bugs, F false alarms in R runs".
#   RUNS=200  how often the unchanged build goes through the gate      UNCHANGED='--repeat 2'  options of those runs
#   ONLY='a b'  only these bugs (then nothing is written)
# Ended by SIGTERM it writes what it has.
# A bug counts as caught by exit 1 only; a false alarm is exit 1 or 3 on an unchanged build (design, docs/verdicts.md).
# SPDX-License-Identifier: Apache-2.0
set -u
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BIN=${BIN:-$ROOT/bin} LIB=${LIB:-$ROOT/lib} RUNS=${RUNS:-200} UNCHANGED=${UNCHANGED---repeat 2} OUT=${OUT:-$ROOT/docs/detection.md}
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
table=$WORK/table.md
caught=0 bugs=0
row() { # $1 name:checkpoint
    local name=${1%%:*} ck=${1##*:} rc
    gate "$LIB/bugs/$name" "$ck"
    rc=$?
    printf '| `%s` | %s | %s | %s | %s | %s | %s | %s | %s |\n' "$name" "$ck" "$(lane tokens)" "$(lane collapse)" "$(lane scores)" "$(lane ops)" "$(lane speed)" \
        "$rc" "$(figure)" | tee -a "$table"
    return $rc
}
head='| build | checkpoint | tokens | collapse | scores | ops | speed | exit | verdict line |
|---|---|---|---|---|---|---|---|---|'
echo "$head"
for c in $cases; do
    [ -n "${ONLY:-}" ] && [[ " $ONLY " != *" ${c%%:*} "* ]] && continue
    bugs=$((bugs + 1))
    row "$c"
    [ $? = 1 ] && caught=$((caught + 1))
done
cp "$table" "$WORK/bugs.md" 2>/dev/null || :>"$WORK/bugs.md"
: >"$table"
[ -n "${ONLY:-}" ] || for c in $honest; do row "$c"; done
cp "$table" "$WORK/honest.md"

report() { # what is known by now; also when the runs are cut short by a signal
    last="caught $caught/$bugs bugs, $false false alarms in $runs runs"
    [ -n "${ONLY:-}" ] && return
    {
        echo '# Detection: what catches what'
        echo
        echo "Written by \`make bench-detect\` on $(date -u +%Y-%m-%d), $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)."
        echo
        echo 'Each row is one run of `gate` with a live server on that build: suite quick, five repeats recorded,'
        echo '`--build`, `--baseline-build`, lanes tokens, collapse, scores, ops and speed of ops. A bug counts as'
        echo 'caught by exit 1 only.'
        echo
        echo '## Planted bugs'
        echo
        echo "$head"
        cat "$WORK/bugs.md"
        echo
        echo '## Honest other builds'
        echo
        echo 'Tokens, collapse, scores and ops must not call these builds wrong. A build that is really slower fails'
        echo 'on speed.'
        echo
        echo "$head"
        cat "$WORK/honest.md"
        echo
        echo '## The unchanged build'
        echo
        echo "$runs runs, each with a freshly started server and \`$UNCHANGED\`: half of them on gptq4, a quarter"
        echo "each on gptq8 and gptq4-act. $false false alarms (exit 1 or 3)."
        cat "$WORK/alarms"
        echo
        echo "$last"
    } >"$OUT"
}
false=0 runs=0
: >"$WORK/alarms"
trap 'stop; report; echo "$last"; rm -rf "$WORK"; trap - EXIT; exit 1' INT TERM
cks=(gptq4 gptq4 gptq8 gptq4-act)
while [ $runs -lt "$RUNS" ]; do
    ck=${cks[$((runs % 4))]}
    # shellcheck disable=SC2086
    gate "$LIB" "$ck" $UNCHANGED
    rc=$?
    runs=$((runs + 1))
    if [ $rc != 0 ]; then
        false=$((false + 1))
        printf '%s\n' "- run $runs, $ck, exit $rc: \`$(tail -n 1 "$WORK/gate.out")\`" | tee -a "$WORK/alarms"
    fi
    [ $((runs % 20)) = 0 ] && echo "unchanged: $runs runs, $false alarms" >&2
done
report
echo "$last"
