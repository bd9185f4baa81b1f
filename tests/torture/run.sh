#!/usr/bin/env bash
# run.sh [WORD] - `make torture`: run the scripts of this folder (or those whose name holds WORD), one after the other. Each ends
# with a line that says how many cases it tried, and with 1 when one failed. That line is repeated at the end, with the minutes.
#
# The whole takes about two hours on two cores. SCALE=N (1): the scripts try N times as much. Below: what each does of
# each unit of it. A variable of a script's own (CALLS, MINUTES, CASES, KILLS, SOAK_MINUTES; its head has them) goes before SCALE.
#
#   fail_calls            6 places of each function of the C library, 47 commands; 2 cases of each of those on a fake GPU
#   fail_in_server        1 case of each function that a tap calls in 12 servers, and of what two of them and their ranks call
#   fuzz                  each parser for a minute, two at a time (FUZZ_JOBS)
#   fuzz_fixture          300 fixtures; each 20th huge number
#   hostile               whole, whatever SCALE is; so are kill_repair, kill_write, malicious_fixtures and power_cut
#   kill_record           200 kills
#   lint                  each 8th file, other ones each day; all of them from SCALE=8 on
#   many_ops              a fixture of a million ops
#   soak                  half an hour: the memory settles for the first quarter
#
# A script that has not ended after LIMIT_MINUTES (60 for each unit of SCALE) is stopped, and has failed.
# SPDX-License-Identifier: Apache-2.0
set -u
cd "$(dirname "$0")" || exit 2
export SCALE=${SCALE:-1}
[[ $SCALE =~ ^[1-9][0-9]{0,3}$ ]] || { echo "torture: SCALE is a number from 1 to 9999, not $SCALE" >&2; exit 2; }
limit=${LIMIT_MINUTES:-$((60 * SCALE))}
lines=()
bad=0
ran=0
began=$SECONDS
work=$(mktemp -d) || exit 2
child=
trap 'rm -rf "$work"' EXIT
trap '[ -z "$child" ] || kill "$child"; exit 130' INT TERM
mkfifo "$work/pipe"

load() { cut -d' ' -f1 /proc/loadavg; }

echo "== torture: SCALE=$SCALE, $(git describe --always --dirty 2>/dev/null), $(nproc) cores, load $(load)"
for script in *.sh; do
    [ "$script" = run.sh ] || [[ $script != *"${1:-}"* ]] && continue
    echo "== $script"
    start=$SECONDS
    tee "$work/out" <"$work/pipe" &
    tee=$!
    timeout -k 60 "${limit}m" bash "$script" >"$work/pipe" 2>&1 &
    child=$!
    wait "$child"
    rc=$?
    child=
    wait "$tee"
    [ $rc -ne 124 ] || echo "$script had not ended after $limit minutes" | tee -a "$work/out"
    [ $rc -eq 0 ] || { bad=$((bad + 1)); echo "FAIL  $script"; }
    lines+=("$script: $(tail -n 1 "$work/out") ($(((SECONDS - start + 30) / 60)) min)")
    ran=$((ran + 1))
done
printf '%s\n' '== torture' "${lines[@]}"
echo "$ran scripts, $bad failed, $(((SECONDS - began + 30) / 60)) minutes, SCALE=$SCALE, load $(load)"
[ "$ran" -gt 0 ] && [ "$bad" -eq 0 ]
