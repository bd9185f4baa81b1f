#!/usr/bin/env bash
# accepted_pairs.sh - accept each planted bug in turn, and gate every other build: none may pass by that acceptance. The
# accepted bug is gated again with other samples of its ops, and by another kernel of the CPU: it must stay accepted. In a sample
# of a few ops a bias is not judged, and one that drowns in a kernel's own errors is not found: the last line counts these.
# At last faults with a second one beside them: the acceptance of the first does not excuse both.
# MODELS: the checkpoints of demo/checkpoints that are recorded
# SPDX-License-Identifier: Apache-2.0
set -u
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BIN=${BIN:-$ROOT/bin} LIB=${LIB:-$ROOT/lib}
export ROOT BIN LIB
cd "$(mktemp -d)" || exit 2
. "$ROOT/tests/fakes/demo.sh"
plant() { # NAME BUG TEXT: a build with that bug, whose scales are changed by this as well, into bugs/NAME
    local src obj isa
    mkdir -p "bugs/$1"
    {
        echo "#include \"demo/bugs/$2.h\""
        echo "#define STEP_SCALE(x, s) __extension__({ vf scales_ = (s); $3 scales_; })"
    } >"bugs/$1/bug.h"
    for src in "$ROOT"/kernels/gptq_gemm/*.c; do
        obj=bugs/$1/$(basename "$src" .c).o isa=
        [[ $src == *avx2* && $(uname -m) == x86_64 ]] && isa="-mavx2 -mfma -mf16c"
        [[ $src == *_pick.c ]] || isa+=" -include bugs/$1/bug.h"
        ${CC:-gcc} -O2 -fPIC -std=gnu11 -D_GNU_SOURCE -DTD_VERSION='"planted"' -DTD_BUILD_NOTE='""' -I "$ROOT" $isa -c "$src" -o "$obj" || exit 2
    done
    ${CC:-gcc} -shared "bugs/$1"/*.o -o "bugs/$1/libtdkernels.so" -lm || exit 2
}
FOURTH='for (unsigned lane_ = 0; lane_ < WIDTH; lane_ += 4) scales_[lane_] *= 1.01f;' # a column in four, by 1 %
COLUMN='if ((x)->m > 1 && group == 0 && column == 0) scales_[7] *= 1.04f;' # one column, in the first group
bad=0 pairs=0 again=0 accepted=0 nothing=0
port=$(free_port)
demo_suite >suite.jsonl
for checkpoint in ${MODELS:-gptq4 gptq8 gptq4-act}; do
    [ -d "$ROOT/demo/checkpoints/$checkpoint" ] || continue
    "$BIN/record" -s "127.0.0.1:$port" -o "fx-$checkpoint" --suite suite.jsonl --repeat 1 --scores off --gemms all --run -- \
        "$BIN/demo-server" --model "$ROOT/demo/checkpoints/$checkpoint" --served-model-name demo --port "$port" >out 2>&1 || { cat out; exit 1; }
    fx=fx-$checkpoint
    gated() { # BUG OPTIONS...: its exit code
        local dir=$LIB/bugs/$1
        [ -d "bugs/$1" ] && dir=bugs/$1
        "$BIN/gate" "$fx" --build "$dir/libtdkernels.so" --baseline-build "$LIB/libtdkernels.so" --lanes ops --deadline 60 --json report.json "${@:2}" >out 2>err
    }
    for one in "$LIB"/bugs/*/; do
        one=$(basename "$one")
        rm -f tapedeck.accepted.json
        gated "$one" --accept "a ticket" --until "$(date -u -d '30 days' +%F)"
        [ -s tapedeck.accepted.json ] || continue
        accepted=$((accepted + 1))
        for more in "" "--max-ops 200" "--max-ops 60" "--build-env TD_KERNEL=c"; do
            again=$((again + 1))
            if ! gated "$one" $more; then
                echo "$fx $one $more is not accepted again: $(tail -n 1 out)"
                bad=$((bad + 1))
            elif ! grep -q 'accepted=' out; then # nothing was found, so nothing was accepted: too few ops for a bias, as the report says
                nothing=$((nothing + 1))
                [[ $more == --max-ops* ]] && grep -q 'bias (too few' report.json || { echo "$fx $one $more passes without its acceptance"; bad=$((bad + 1)); }
            fi
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
    for one in unordered honest_sumorder truncate; do # results differ in last bits in the first
        plant one "$one" "$FOURTH"
        plant both "$one" "$FOURTH $COLUMN"
        rm -f tapedeck.accepted.json
        gated one --accept "a ticket" --until "$(date -u -d '30 days' +%F)"
        accepted=$((accepted + 1)) again=$((again + 1))
        gated one || { echo "$fx $one and a column in four is not accepted again: $(tail -n 1 out)"; bad=$((bad + 1)); }
        for more in "" "" "" "--max-ops 200"; do
            pairs=$((pairs + 1))
            gated both $more
            tail -n 1 out | grep -q '^verdict: regressed' || { echo "$fx $one and a column in four, and a second fault $more: $(tail -n 1 out)"; bad=$((bad + 1)); }
        done
    done
    echo "up to $checkpoint: $accepted acceptances, $again gated again ($nothing of a sample found nothing), $pairs pairs, $bad wrong"
done
echo "$accepted acceptances, $again gated again ($nothing of a sample found nothing), $pairs pairs, $bad wrong"
[ "$bad" -eq 0 ]
