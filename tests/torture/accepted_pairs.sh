#!/usr/bin/env bash
# accepted_pairs.sh - accept each planted bug in turn, and gate every other build: none may pass by that acceptance. The
# accepted bug is gated again with other samples of its ops, and by another kernel of the CPU: it must stay accepted.
# MODELS: the checkpoints of demo/checkpoints that are recorded
# SPDX-License-Identifier: Apache-2.0
set -u
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BIN=${BIN:-$ROOT/bin} LIB=${LIB:-$ROOT/lib}
export ROOT BIN LIB
cd "$(mktemp -d)" || exit 2
. "$ROOT/tests/fakes/demo.sh"
bad=0 pairs=0 again=0 accepted=0
port=$(free_port)
demo_suite >suite.jsonl
for checkpoint in ${MODELS:-gptq4 gptq8 gptq4-act}; do
    [ -d "$ROOT/demo/checkpoints/$checkpoint" ] || continue
    "$BIN/record" -s "127.0.0.1:$port" -o "fx-$checkpoint" --suite suite.jsonl --repeat 1 --scores off --gemms all --run -- \
        "$BIN/demo-server" --model "$ROOT/demo/checkpoints/$checkpoint" --served-model-name demo --port "$port" >out 2>&1 || { cat out; exit 1; }
    fx=fx-$checkpoint
    gated() { # BUG OPTIONS...: its exit code
        "$BIN/gate" "$fx" --build "$LIB/bugs/$1/libtdkernels.so" --baseline-build "$LIB/libtdkernels.so" --lanes ops --deadline 60 "${@:2}" >out 2>err
    }
    for one in "$LIB"/bugs/*/; do
        one=$(basename "$one")
        rm -f tapedeck.accepted.json
        gated "$one" --accept "a ticket" --until "$(date -u -d '30 days' +%F)"
        [ -s tapedeck.accepted.json ] || continue
        accepted=$((accepted + 1))
        for more in "" "--max-ops 200" "--max-ops 60" "--build-env TD_KERNEL=c"; do
            again=$((again + 1))
            gated "$one" $more || { echo "$fx $one $more is not accepted again: $(tail -n 1 out)"; bad=$((bad + 1)); }
        done
        for other in "$LIB"/bugs/*/; do
            other=$(basename "$other")
            [ "$other" = "$one" ] && continue
            for more in "" "--max-ops 60"; do
                pairs=$((pairs + 1))
                gated "$other" $more && grep -q 'accepted=' out && { echo "$fx $one excuses $other $more"; bad=$((bad + 1)); }
            done
        done
    done
    echo "up to $checkpoint: $accepted acceptances, $again gated again, $pairs pairs, $bad wrong"
done
echo "$accepted acceptances, $again gated again, $pairs pairs, $bad wrong"
[ "$bad" -eq 0 ]
