#!/usr/bin/env bash
# run.sh MINUTES [WORD] - run each libFuzzer program of $O/tests/fuzz (or those whose name holds WORD) for MINUTES, FUZZ_JOBS (1)
# at a time. `make fuzz` builds them and calls this. Prints one row a fuzzer: executions, seconds, edges covered, findings. An
# input that crashes, hangs for 20 s, leaks or needs more than 2 GiB is a finding; it lies in $O/findings. What was learned stays
# in $O/corpus, so the next run goes on from there. Exit 1 if there was a finding. SPDX-License-Identifier: Apache-2.0
set -u
seconds=$(awk -v m="$1" "BEGIN {printf \"%d\", m * 60}")
word=${2:-}
cd "$(dirname "$0")/../.." || exit 2
mkdir -p "$O/findings" "$O/corpus"
rows=$(mktemp) || exit 2
trap 'rm -f "$rows"' EXIT
trap 'exit 130' INT TERM

# fuzz NAME - run one fuzzer, print its row and add "EXECUTIONS FINDINGS" to $rows.
fuzz() {
    local name=$1 seeds rc runs edges start=$SECONDS log=$O/findings/$1.log
    seeds=$(sed -n 's/.*TD_FUZZ_MAIN("\([^"]*\)".*/\1/p' "tests/fuzz/$name.c")
    if [ ! -x "$O/tests/fuzz/$name" ] || [ ! -d "$seeds" ]; then
        echo "$name: no program, or no folder of seeds ($seeds)" >&2
        echo "0 1" >>"$rows"
        return
    fi
    mkdir -p "$O/corpus/$name"
    "$O/tests/fuzz/$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix="$O/findings/$name-" "$O/corpus/$name" "$seeds" >"$log" 2>&1 </dev/null
    rc=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    printf '%-22s %13s %8s %8s %9s\n' "$name" "${runs:-?}" $((SECONDS - start)) "${edges:-?}" $((rc != 0))
    [ "$rc" -eq 0 ] || tail -n 30 "$log" >&2
    echo "${runs:-0} $((rc != 0))" >>"$rows"
}

printf '%-22s %13s %8s %8s %9s\n' fuzzer executions seconds edges findings
running=0
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    [[ $name == *"$word"* ]] || continue
    if [ "$running" -ge "${FUZZ_JOBS:-1}" ]; then
        wait -n
        running=$((running - 1))
    fi
    fuzz "$name" &
    running=$((running + 1))
done
wait
awk '{runs += $1; found += $2} END {printf "fuzz: %d executions of %d fuzzers, %d findings\n", runs, NR, found; exit found > 0 || !NR}' "$rows"
