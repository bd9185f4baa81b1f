# rows_llamacpp_builds.sh - how small a fault of llama.cpp's kernels is found: builds with one edit
# each (llamacpp_builds.py), beside recordings of a live server. A row is a form of model, named by
# the type of its weights. It is recorded once, then each build of that form is gated by ops alone,
# and must be caught or pass as builds.txt says. A line of the table: the build, what must come, what
# came, bad ops of those judged, how many ops exact match and torch.testing's defaults would fail (other_rules.py), and the place that
# the report names first.
#   BUILDS=PATTERN   only these builds (a pattern of the shell)
# SPDX-License-Identifier: Apache-2.0
. "$HERE/rows_llamacpp.sh"

# What the report names first: a place, or the worst op
named() {
    local place
    place=$(sed -nE 's/^ *worst places: *([^;]*).*/\1/p' "$1" | head -n 1)
    echo "${place:-$(sed -nE 's/^WHY *//p' "$1" | head -n 1)}" | cut -c 1-90
}

# gate_build NAME WANT: one build beside $FIXTURE; a line of the table
gate_build() {
    local rc state=ok report=$ROW.$1.txt folder=$LLAMA/builds/$1 kept=$WORK/llamacpp-kept rules line
    [ -d "$folder" ] || folder=$(llama_libraries "$1")
    rm -rf "$kept"
    timeout --foreground 300 "$BIN/gate" "$FIXTURE" --build "$folder" --lanes ops --max-ops "$OPS" --time all --keep "$kept" -v >"$report" 2>&1
    rc=$?
    rules=$(/usr/bin/python3 -B "$ROOT/bench/detect/other_rules.py" "$FIXTURE" "$kept/candidate-0" 2>"$ROW.rules.txt") || rules="exact - torch -"
    rm -rf "$kept"
    case $2 in right) [ $rc = 0 ] ;; caught) [ $rc = 1 ] ;; any) [ $rc = 0 ] || [ $rc = 1 ] ;; esac || {
        state=WRONG
        put failed "$1: exit $rc"
        tail -n 30 "$report" >&2
    }
    sed -z -i -E -f "$ROOT/tests/fakes/unwrap.sed" "$report"
    printf -v line '%-20s %-7s %-10s %-6s %-12s %-28s %s' "$1" "$2" "$(verdict_of $rc)" $state \
        "$(sed -nE 's/^verdict:.* ops=([0-9/]+).*/\1/p' "$report")" "$rules" "$(named "$report")"
    put measured "$line"
    say "$line"
}

# builds_of FORM OPTIONS OF THE SERVER...
builds_of() {
    local name want forms port n=0
    put baseline "llama.cpp good, $1"
    put candidate 'builds with one edit each'
    put want 'as builds.txt'
    need llamacpp llamacpp_builds
    FIXTURE=$WORK/llamacpp-builds-$1
    port=$(free_port) || exit 1
    llama_command good "$port" "${@:2}"
    record_to "$FIXTURE" --server "127.0.0.1:$port" --suite quick --repeat 1 --max-tokens 16 --gemms 25% --budget -1 --ring-mib 512 \
        --run -- "${COMMAND[@]}"
    while read -r name want forms; do
        # shellcheck disable=SC2053 # a pattern
        [[ " $forms " = *" $1 "* && $name = ${BUILDS:-*} ]] || continue
        gate_build "$name" "$want" </dev/null
        n=$((n + 1))
    done <"$LLAMA/builds/builds.txt"
    put got "$n builds"
}

row_builds_q4_1() { builds_of q4_1; }
row_builds_q8_0() { builds_of q8_0 -m "$CACHE/model-q8_0.gguf"; }
row_builds_q4_k() { builds_of q4_k -m "$CACHE/model-q4_k.gguf"; }
row_builds_plain() { builds_of q4_k_plain -m "$CACHE/model-q4_k.gguf" --no-repack; }
