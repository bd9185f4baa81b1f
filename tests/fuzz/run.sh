#!/usr/bin/env bash
# run.sh MINUTES [WORD] - run each libFuzzer program of $O/tests/fuzz (or those whose name holds WORD) for MINUTES, one after the
# other. `make fuzz` builds them and calls this. Prints one row a fuzzer: executions, seconds, edges covered, findings. An input
# that crashes, hangs for 20 s, leaks or needs more than 2 GiB is a finding; it lies in $O/findings. What was learned stays in
# $O/corpus, so the next run goes on from there. Exit 1 if there was a finding. SPDX-License-Identifier: Apache-2.0
set -u
seconds=$(awk -v m="$1" "BEGIN {printf \"%d\", m * 60}")
word=${2:-}
cd "$(dirname "$0")/../.." || exit 2
mkdir -p "$O/findings" "$O/corpus"
total=0
found=0
printf '%-22s %13s %8s %8s %9s\n' fuzzer executions seconds edges findings
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    [[ $name == *"$word"* ]] || continue
    seeds=$(sed -n 's/.*TD_FUZZ_MAIN("\([^"]*\)".*/\1/p' "$source")
    if [ ! -x "$O/tests/fuzz/$name" ] || [ ! -d "$seeds" ]; then
        echo "$name: no program, or no folder of seeds ($seeds)" >&2
        found=$((found + 1))
        continue
    fi
    mkdir -p "$O/corpus/$name"
    start=$SECONDS
    "$O/tests/fuzz/$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix="$O/findings/$name-" "$O/corpus/$name" "$seeds" >"$O/findings/$name.log" 2>&1 </dev/null
    rc=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$O/findings/$name.log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$O/findings/$name.log" | tail -n 1)
    bad=0
    [ "$rc" -ne 0 ] && bad=1
    printf '%-22s %13s %8s %8s %9s\n' "$name" "${runs:-?}" $((SECONDS - start)) "${edges:-?}" "$bad"
    [ "$bad" -ne 0 ] && tail -n 30 "$O/findings/$name.log" >&2
    total=$((total + ${runs:-0}))
    found=$((found + bad))
done
echo "fuzz: $total executions, $found findings"
[ "$found" -eq 0 ]
