#!/usr/bin/env bash
# run.sh - run the unit tests, the fuzzers on their corpora, and the end-to-end cases. The last line
# gives the counts.
# usage: BIN=.. LIB=.. O=.. [JOBS=N] tests/run.sh [--update] [--list FILE] [WORD]     (called by `make check`)
#   WORD      run only the tests whose path contains WORD
#   --list    run only the tests whose names FILE holds, one a line (`make check-threads`); a name
#             that is no test's fails
#   --update  write each case's output to its file `expected`
#   JOBS      number of tests that run at once (default: number of cores, at most 4)
#   TIMES     a file that gets a line a test: the seconds that it took, those of the CPU, its name
# Under AddressSanitizer the tests of tests/plain.list are skipped, each with the reason that stands
# there, unless WORD names them; a name there that is no test's, or has no reason, fails.
# A case is tests/e2e/NNN-what/cmd. bash runs it in an empty folder with ROOT, BIN, LIB, O and T
# (the case's own folder) set; they lead through links of one length. Beside cmd lie `expected`, the
# exact standard output, and `exit`, the exit status if it is not 0. Status 77 is a skip: the last
# line of the output names the reason. What programs keep for later (XDG_CACHE_HOME) is of the case alone.
# SPDX-License-Identifier: Apache-2.0
set -u
ROOT=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C.UTF-8 NO_COLOR=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
cores=$(nproc)
JOBS=${JOBS:-$((cores < 4 ? cores : 4))}
case $JOBS in '' | *[!0-9]* | 0*) echo "run.sh: JOBS=$JOBS: a number from 1" >&2; exit 2 ;; esac
export -n JOBS # what a test itself runs at once is its own affair
update=
[ "${1:-}" = --update ] && { update=1; shift; }
list= list_file=
[ "${1:-}" = --list ] && { list_file=$2; list=$(sed 's/ *#.*//; /^$/d' "$2") || exit 2; shift 2; }
only=${1:-}
case ${SAN:-} in *thread*) threads=1 ;; *) threads= ;; esac
left_file=
case ${SAN:-} in *address*) left_file=$ROOT/tests/plain.list ;; esac
# The runtime of gcc 12 ends a program whose memory lies where it does not expect it ("unexpected
# memory mapping"); with more random bits in addresses than 28 that is chance. Without randomness
# it never happens.
if [ -n "$threads" ] && [ -z "${TD_SAME_ADDRESSES:-}" ] && [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 99)" -gt 28 ]; then
    setarch -R true 2>/dev/null || { echo 'run.sh: ThreadSanitizer needs "setarch -R", which is not allowed here, or: sysctl vm.mmap_rnd_bits=28' >&2; exit 1; }
    TD_SAME_ADDRESSES=1 JOBS=$JOBS exec setarch -R bash "$0" ${update:+--update} ${list_file:+--list "$list_file"} $only
fi
scratch=$(mktemp -d) || exit 1
# Reports wrap and cut at 100 columns, and name programs, builds and fixtures: links of one length
# make what a case prints the same wherever the tree lies.
links=$(mktemp -d /tmp/td.XXXXXX) || exit 1
ln -s "$ROOT" "$links/tree" && ln -s "$BIN" "$links/bin" && ln -s "$LIB" "$links/lib" && ln -s "$O" "$links/build" || exit 1
ROOT=$links/tree BIN=$links/bin LIB=$links/lib O=$links/build
export ROOT BIN LIB O
set -m # each job has its own process group, and SIGINT as a program at a terminal has it
trap 'kill -TERM $(jobs -p | sed "s/^/-/") 2>/dev/null; rm -rf "$scratch" "$links"' EXIT
trap 'exit 130' INT TERM

# ThreadSanitizer writes what it finds to a file a process: nobody sees the standard error, or the
# exit code, of a server that is killed. A file, however the test itself ended, is a failure.
races() { # add the outcome of a test NAME that ended: 1 when a race was found
    [ -n "$threads" ] || return 0
    cat "$dir"/tsan.* >"$dir/races" 2>/dev/null
    [ -s "$dir/races" ] || return 0
    head -n 70 "$dir/races"
    fail "$1 ($(grep -c '^SUMMARY: ThreadSanitizer' "$dir/races") races)"
    return 1
}

# Called in a test's own process: add the outcome to the tally in its folder $dir.
pass() { echo "passed $1" >>"$dir/tally"; }
skip() { echo "skipped ${2:-1} $1" >>"$dir/tally"; }
fail() { echo "failed ${2:-1} $1" >>"$dir/tally"; printf '  FAIL  %s\n' "$1"; }

unit() { # one cmocka program; counts its tests
    local name ok bad skipped rc
    name=$(basename "$1")
    (cd "$ROOT" && timeout --foreground -k 5 600 "$1") >"$dir/out" 2>&1
    rc=$?
    races "$name" || return
    ok=$(grep -c '^\[       OK \]' "$dir/out")
    bad=$(grep -c '^\[  FAILED  \] [a-z].*[^:]$' "$dir/out")
    skipped=$(grep -c '^\[  SKIPPED \] [a-z]' "$dir/out")
    pass "$ok"
    [ "$skipped" -gt 0 ] && skip "$name: $(grep '^\[  SKIPPED \] [a-z]' "$dir/out" | tr '\n' ' ')" "$skipped"
    if [ $rc -ne 0 ]; then
        tail -n 40 "$dir/out"
        fail "$name (exit $rc)" $((bad > 1 ? bad : 1))
    elif [ "$ok" -eq 0 ]; then
        fail "$name ran no test"
    else
        printf '  ok    %s (%d)\n' "$name" "$ok"
    fi
}

fuzz() {
    local name
    name=$(basename "$1")
    if (cd "$ROOT" && timeout --foreground -k 5 300 "$1") >"$dir/out" 2>&1; then
        pass 1
        printf '  ok    %s: %s\n' "$name" "$(tail -n 1 "$dir/out")"
    else
        tail -n 40 "$dir/out"
        fail "$name"
    fi
}

e2e() {
    local case=$1 name want rc
    name=e2e/$(basename "$case")
    want=0
    [ -f "$case/exit" ] && want=$(cat "$case/exit")
    mkdir "$dir/work"
    (cd "$dir/work" && XDG_CACHE_HOME=$dir/cache T=$case timeout --foreground -k 5 600 bash "$case/cmd") >"$dir/out" 2>"$dir/err"
    rc=$?
    races "$name" || return
    if [ $rc -eq 77 ]; then
        skip "$name: $(tail -n 1 "$dir/out")"
        printf '  skip  %s: %s\n' "$name" "$(tail -n 1 "$dir/out")"
        return
    fi
    [ -n "$update" ] && cp "$dir/out" "$case/expected"
    if [ "$rc" != "$want" ]; then
        cat "$dir/out" "$dir/err" | tail -n 40
        fail "$name (exit $rc, expected $want)"
    elif [ ! -f "$case/expected" ]; then
        fail "$name (it has no file expected)"
    elif ! diff -u "$case/expected" "$dir/out"; then
        tail -n 20 "$dir/err"
        fail "$name (output differs)"
    else
        pass 1
        printf '  ok    %s\n' "$name"
    fi
}

# End what a case left running: all processes of this job's process group.
end_group() {
    local group
    read -r _ _ _ _ group _ <"/proc/$BASHPID/stat"
    trap '' TERM
    [ "$group" != "$BASHPID" ] || kill -TERM 0
}

# begin KIND PATH: run the test in the background, once fewer than JOBS are running
started=0 shown=0 names=()
begin() {
    while [ "$(jobs -rp | wc -l)" -ge "$JOBS" ]; do wait -n; done
    show
    started=$((started + 1))
    (
        dir=$scratch/$started
        mkdir "$dir"
        [ -z "$threads" ] || export TSAN_OPTIONS="log_path=$dir/tsan suppressions=$ROOT/tests/threads.supp die_after_fork=0 ${TSAN_OPTIONS:-}"
        begun=${EPOCHREALTIME/./}
        "$@" >"$dir/shown" 2>&1
        took=$(((${EPOCHREALTIME/./} - begun) / 1000))
        echo "$((took / 1000)) s ${*: -1}" >"$dir/seconds"
        if [ -n "${TIMES:-}" ] && [ "$1" != left ]; then
            times >"$dir/times"
            tail -n 1 "$dir/times" | awk -F '[ms ]+' -v took=$took -v name="${*: -1}" \
                '{printf "%.1f %.1f %s\n", took / 1000, $1 * 60 + $2 + $3 * 60 + $4, name}' >>"$TIMES"
        fi
        end_group
        rm -rf "$dir/work"
        [ -f "$dir/tally" ] && [ -s "$dir/tally" ] && touch "$dir/done"
    ) </dev/null &
    names[started]=$*
}

show() { # print the output of tests that have ended, in the order of their start
    while [ -e "$scratch/$((shown + 1))/done" ]; do cat "$scratch/$((++shown))/shown"; done
}

# A test that a run under sanitizers leaves out: its only work is to say so.
left() { # REASON NAME
    skip "$2: $1"
    printf '  skip  %s: %s\n' "$2" "$1"
}

match() { # PATH: is this test to run? Sets its name.
    [ -z "$only" ] || [[ $1 == *"$only"* ]] || return 1
    name=${1#"$ROOT/tests/"}
    name=${name#"$O/tests/"}
    name=${name%/cmd}
    if [ -n "${reason[$name]:-}" ] && [ -z "$only" ]; then
        begin left "${reason[$name]}" "$name"
        return 1
    fi
    [ -n "$list" ] || return 0
    grep -qx -- "$name" <<<"$list" && listed+=("$name")
}
listed=() unreasoned=()
declare -A reason=()
if [ -n "$left_file" ]; then
    while IFS= read -r line; do
        case $line in '' | '#'*) continue ;; esac
        name=${line%%  *} why=${line#*  }
        [ "$name" != "$line" ] && [ -n "$why" ] || { unreasoned+=("$name"); continue; }
        reason[$name]=$why
    done <"$left_file"
fi
# What takes longest begins first (tests/long.list), so that no core waits for it at the end.
long=$(sed 's/ *#.*//; /^$/d' "$ROOT/tests/long.list")
first=() rest=()
add() { # KIND PATH
    match "$2" || return 0
    if grep -qx -- "$name" <<<"$long"; then first+=("$1 $2"); else rest+=("$1 $2"); fi
}
for t in $(cd "$ROOT" && find tests/unit -name 'test_*.c' | sort); do add unit "$O/${t%.c}"; done
for t in "$ROOT"/tests/fuzz/fuzz_*.c; do [ ! -e "$t" ] || add fuzz "$O/tests/fuzz/$(basename "$t" .c)"; done
for t in "$ROOT"/tests/e2e/*/cmd; do [ ! -e "$t" ] || add e2e "$(dirname "$t")"; done
for t in ${first[@]+"${first[@]}"} ${rest[@]+"${rest[@]}"}; do begin "${t%% *}" "${t#* }"; done
wait
show
lost=0
for name in $list; do # misspelt, or renamed
    [ -n "$only" ] || [[ " ${listed[*]} " == *" $name "* ]] || { echo "failed: no test is named $name"; lost=$((lost + 1)); }
done
for name in ${unreasoned[@]+"${unreasoned[@]}"}; do echo "failed: $left_file gives no reason for $name"; lost=$((lost + 1)); done
for name in "${!reason[@]}" $long; do
    [ -e "$ROOT/tests/$name/cmd" ] || [ -e "$ROOT/tests/$name.c" ] || { echo "failed: no test is named $name (tests/plain.list, tests/long.list)"; lost=$((lost + 1)); }
done
for i in $(seq $started); do # a test whose shell died has written no tally
    [ ! -e "$scratch/$i/done" ] || [ "$i" -le $shown ] || cat "$scratch/$i/shown"
    [ -e "$scratch/$i/done" ] || { cat "$scratch/$i/shown" 2>/dev/null; echo "failed: ${names[i]} did not come to an end"; lost=$((lost + 1)); rm -f "$scratch/$i/tally"; }
done

[ -n "$only" ] || echo "slowest: $(cat "$scratch"/*/seconds | sort -rn | head -n 12 | sed -E 's|^([0-9]+ s) .*/|\1 |' | paste -sd, | sed 's/,/, /g')"
for kind in skipped failed; do cat "$scratch"/*/tally 2>/dev/null | sed -n "s/^$kind [0-9]* /$kind: /p"; done
cat "$scratch"/*/tally 2>/dev/null | awk -v lost=$lost '{n[$1] += $2}
    END {printf "%d passed, %d failed, %d skipped\n", n["passed"], n["failed"] + lost, n["skipped"]; exit n["failed"] + lost > 0 || !n["passed"]}'
