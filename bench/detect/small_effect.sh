#!/usr/bin/env bash
# small_effect.sh - how small a slow-down of ops is seen: slower builds and an equal one, each ROUNDS times beside the same build.
# SPDX-License-Identifier: Apache-2.0
#
# usage: bench/detect/small_effect.sh FIXTURE DIR BUILD SLOWER... [-- OPTIONS OF gate]
# Each round is kept in DIR and judged by the policy's defaults and by smaller effects, so that nothing is timed again; prints how
# often each build is called slower by each, then the total's estimate in each round. It goes on where it was stopped: run it again
# for more rounds. ROUNDS=10; BENCH_SECONDS=480: no round begins later.
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BIN=${BIN:-$ROOT/bin}
[ $# -ge 4 ] || { sed -n '5,8s/^# //p' "$0" >&2; exit 2; }
fixture=$1 dir=$2 build=$3 builds=("$3")
shift 3
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    builds+=("$1")
    shift
done
[ $# = 0 ] || shift
mkdir -p "$dir"

# name of a build, which may be a folder: that of the baseline is `equal`
name_of() { [ "$1" = "$build" ] && echo equal || basename "${1%/libtdkernels.so}" .fatbin; }

for round in $(seq "${ROUNDS:-10}"); do
    for new in "${builds[@]}"; do
        name=$(name_of "$new")
        [ $SECONDS -lt "${BENCH_SECONDS:-480}" ] && [ ! -e "$dir/$name-$round" ] || continue
        rm -rf "$dir/part"
        "$BIN/gate" "$fixture" --build "$new" --baseline-build "$build" --lanes "ops,speed" --time all --keep "$dir/part" "$@" >"$dir/$name-$round.txt" 2>&1 || true
        [ ! -d "$dir/part/candidate-0" ] || mv "$dir/part/candidate-0" "$dir/$name-$round"
    done
done
rm -rf "$dir/part"
printf 'effect  noise   called slower of rounds:'
for new in "${builds[@]}"; do printf '  %s' "$(name_of "$new")"; done
echo
for policy in 0.05:0.02 0.04:0.015 0.03:0.01 0.02:0.01 0.015:0.0075 0.01:0.005; do
    effect=${policy%:*} noise=${policy#*:}
    echo "{\"name\": \"effect $effect\", \"speed\": {\"ops_effect\": $effect, \"ops_noise\": $noise, \"gpu_effect\": $effect, \"gpu_noise\": $noise}}" >"$dir/policy.json"
    counts=
    for new in "${builds[@]}"; do
        called=0 rounds=0 name=$(name_of "$new")
        for replay in "$dir/$name"-*/; do
            [[ -e $replay/manifest.json && $replay =~ /$name-[0-9]+/$ ]] || continue
            rounds=$((rounds + 1)) rc=0
            "$BIN/differ" "$fixture" "$replay" --lanes speed --policy "$dir/policy.json" --json "$dir/report.json" >/dev/null 2>&1 || rc=$?
            [ $rc != 1 ] || called=$((called + 1))
            [ "$effect" != 0.05 ] || python3 - "$dir/report.json" "$name" >>"$dir/estimates.part" <<'END'
import json, sys
for row in json.load(open(sys.argv[1]))["speed"]["rows"]:
    if row["total"]:
        print("%-12s %-24s %+.2f %% [%+.2f, %+.2f]" % (sys.argv[2], row["metric"], *(100 * row[k] for k in ("slower", "lo", "hi"))))
END
        done
        counts+="  $called of $rounds"
    done
    echo "$effect  $noise $counts"
done
echo "totals"
cat "$dir/estimates.part"
rm -f "$dir/estimates.part" "$dir/report.json" "$dir/policy.json"
