#!/usr/bin/env bash
# run.sh - run the unit tests, the fuzzers' corpora and the end-to-end cases; the last line counts them.
# usage: BIN=.. LIB=.. O=.. tests/run.sh [--update] [WORD]     (called by `make check`)
# A case is tests/e2e/NNN-what/cmd, run by bash in an empty folder with ROOT, BIN, LIB, O, T (its folder) set:
#   expected  its standard output, to the letter (--update writes it)      exit  its exit status when it is not 0
#   a status of 77 is a skip: the last line of its output says why.
# SPDX-License-Identifier: Apache-2.0
set -u
ROOT=$(cd "$(dirname "$0")/.." && pwd)
export ROOT BIN LIB O
export LC_ALL=C.UTF-8 NO_COLOR=1
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0} UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
update=
[ "${1:-}" = --update ] && { update=1; shift; }
only=${1:-}
passed=0 failed=0 skipped=0
failures=() skips=()
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() { failed=$((failed + 1)); failures+=("$1"); printf '  FAIL  %s\n' "$1"; }

unit() { # one cmocka program; counts its tests
    local name ok bad skip rc
    name=$(basename "$1")
    (cd "$ROOT" && timeout -k 5 600 "$1") >"$scratch/out" 2>&1
    rc=$?
    ok=$(grep -c '^\[       OK \]' "$scratch/out")
    bad=$(grep -c '^\[  FAILED  \] [a-z].*[^:]$' "$scratch/out")
    skip=$(grep -c '^\[  SKIPPED \] [a-z]' "$scratch/out")
    passed=$((passed + ok)) skipped=$((skipped + skip))
    [ "$skip" -gt 0 ] && skips+=("$name: $(grep '^\[  SKIPPED \] [a-z]' "$scratch/out" | tr '\n' ' ')")
    if [ $rc -ne 0 ]; then
        tail -n 40 "$scratch/out"
        fail "$name (exit $rc)"
        [ "$bad" -gt 1 ] && failed=$((failed + bad - 1))
    elif [ "$ok" -eq 0 ]; then
        fail "$name ran no test"
    else
        printf '  ok    %s (%d)\n' "$name" "$ok"
    fi
}

fuzz() {
    local name
    name=$(basename "$1")
    if (cd "$ROOT" && timeout -k 5 300 "$1") >"$scratch/out" 2>&1; then
        passed=$((passed + 1))
        printf '  ok    %s: %s\n' "$name" "$(tail -n 1 "$scratch/out")"
    else
        tail -n 40 "$scratch/out"
        fail "$name"
    fi
}

e2e() {
    local dir=$1 name want rc
    name=e2e/$(basename "$dir")
    want=0
    [ -f "$dir/exit" ] && want=$(cat "$dir/exit")
    rm -rf "$scratch/work" && mkdir "$scratch/work"
    (cd "$scratch/work" && T=$dir timeout -k 5 600 bash "$dir/cmd") >"$scratch/out" 2>"$scratch/err" </dev/null
    rc=$?
    if [ $rc -eq 77 ]; then
        skipped=$((skipped + 1))
        skips+=("$name: $(tail -n 1 "$scratch/out")")
        printf '  skip  %s: %s\n' "$name" "$(tail -n 1 "$scratch/out")"
        return
    fi
    [ -n "$update" ] && cp "$scratch/out" "$dir/expected"
    if [ $rc -ne "$want" ]; then
        cat "$scratch/out" "$scratch/err" | tail -n 40
        fail "$name (exit $rc, expected $want)"
    elif [ -f "$dir/expected" ] && ! diff -u "$dir/expected" "$scratch/out"; then
        tail -n 20 "$scratch/err"
        fail "$name (output differs)"
    else
        passed=$((passed + 1))
        printf '  ok    %s\n' "$name"
    fi
}

match() { [ -z "$only" ] || [[ $1 == *"$only"* ]]; }
for t in "$ROOT"/tests/unit/test_*.c; do
    t=$O/tests/unit/$(basename "$t" .c)
    match "$t" && unit "$t"
done
for t in "$ROOT"/tests/fuzz/fuzz_*.c; do
    [ -e "$t" ] || continue
    t=$O/tests/fuzz/$(basename "$t" .c)
    match "$t" && fuzz "$t"
done
for t in "$ROOT"/tests/e2e/*/cmd; do
    [ -e "$t" ] || continue
    match "$t" && e2e "$(dirname "$t")"
done

for s in "${skips[@]}"; do printf 'skipped: %s\n' "$s"; done
for s in "${failures[@]}"; do printf 'failed: %s\n' "$s"; done
printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
[ $failed -eq 0 ] && [ $((passed)) -gt 0 ]
