#!/usr/bin/env bash
# run.sh [WORD] - `make torture`: run the scripts of this folder (or those whose name holds WORD), one after the other. Each ends
# with a line that says how many cases it tried, and with 1 when one failed; that line is repeated at the end.
# SPDX-License-Identifier: Apache-2.0
set -u
cd "$(dirname "$0")" || exit 2
lines=()
bad=0
ran=0
for script in *.sh; do
    [ "$script" = run.sh ] || [[ $script != *"${1:-}"* ]] && continue
    echo "== $script"
    out=$(mktemp)
    bash "$script" 2>&1 | tee "$out"
    [ "${PIPESTATUS[0]}" -eq 0 ] || { bad=$((bad + 1)); echo "FAIL  $script"; }
    lines+=("$script: $(tail -n 1 "$out")")
    rm -f "$out"
    ran=$((ran + 1))
done
printf '%s\n' '== torture' "${lines[@]}"
echo "$ran scripts, $bad failed"
[ "$ran" -gt 0 ] && [ "$bad" -eq 0 ]
