# shellcheck shell=bash disable=SC2154
# builds.sh - for vllm_gpu.sh: builds of vLLM's own 4-bit kernels with one edit each (exllama_builds.py, marlin_builds.py), beside
# recordings of them.
# SPDX-License-Identifier: Apache-2.0

# Forms of model: name, options of random_gptq.py. vLLM 0.26 serves no GPTQ model whose zero points differ: there its
# operator is called without a server (direct_gptq.py).
BUILD_FORMS="plain:
fine:--fine
act:--act-order --fine
g32:--group 32 --fine
zeros:--zeros --group 32 --fine"
# And for Marlin, which has an instance of its template for each; awq: with zero points that differ
MARLIN_FORMS="g128:--fine
awq:--awq --fine
act:--act-order --fine
g32:--group 32 --fine"

record_direct() { # NAME MODEL
    rm -rf "${WORK:?}/$1"
    "$PYTHON" -c 'import json
for rows in (1, 7, 24):
    print(json.dumps({"id": f"rows-{rows}", "prompt": " ".join(["word"] * rows)}))' >"$WORK/direct.jsonl"
    "$BIN/record" -o "$WORK/$1" --server "127.0.0.1:$PORT" --suite "$WORK/direct.jsonl" --repeat 1 -n 8 --timeout 120 --gemms all --checkpoint "$WORK/$2" \
        --run -- env GPTQ_MODEL="$WORK/$2" "$PYTHON" "$ROOT/tests/fakes/fake_server.py" --port "$PORT" --seconds 300 --steps "$HERE/direct_gptq.py" \
        >"$WORK/$1.record.txt" 2>&1 || { tail -n 12 "$WORK/$1.record.txt"; wrong "record $1"; return 1; }
    "$BIN/fixture" verify "$WORK/$1" >>"$WORK/$1.record.txt" 2>&1 || wrong "fixture verify $1"
}

# record_form NAME BACKEND OPTIONS OF random_gptq.py...: sets form_fixture. A recording that is there is used again.
record_form() {
    form_fixture=$WORK/builds-$1
    [ ! -e "$form_fixture/manifest.json" ] || return 0
    "$PYTHON" "$HERE/random_gptq.py" "$WORK/model-builds-$1" "${@:3}" || { wrong "builds-$1: no model"; return 1; }
    if [ "$1" = zeros ]; then
        record_direct "builds-$1" "model-builds-$1"
    else
        record_server "builds-$1" "model-builds-$1" --enforce-eager --linear-backend "$2"
    fi
}

# What the report names first: "all elements: +0.1 % [...]"
named() { sed -nE 's/^ *worst places: *//p' "$1" | head -n 1 | cut -c 1-60; }

# judge_build FORM NAME WANT...: one build ($builds/NAME.fatbin) beside the form's recording of $kernel. WANT: right, slow, caught, the
# forms in which it must be caught (in others it gives what the kernel gives), or any. A slow one is timed beside `slow_0`, where there
# is one, and else beside `itself`, and must not be wrong; nothing is expected of its speed. One that hangs in every op is ended. Beside the verdict stands what other rules say of
# the same outputs: exact match, and torch.testing's defaults; "-" where the replay was not written, or Python lacks numpy or zstandard.
judge_build() {
    local form=$1 name=$2 want=${*:3} out=$WORK/builds-$1-$2 rc verdict=ok rules base options=(--lanes ops --max-ops "${MAX_OPS:-480}")
    base=$builds/slow_0.fatbin
    [ -e "$base" ] || base=$builds/itself.fatbin
    [ "$want" != slow ] || options=(--lanes "ops,speed" --baseline-build "$base" --max-ops "${SLOW_OPS:-96}")
    rm -rf "$out.kept"
    timeout --foreground 120 "$BIN/gate" "$form_fixture" --build "$builds/$name.fatbin" "${options[@]}" --only "$kernel" --time all --keep "$out.kept" \
        -v >"$out.txt" 2>&1
    rc=$?
    rules=$("$PYTHON" "$ROOT/bench/detect/other_rules.py" "$form_fixture" "$out.kept/candidate-0" 2>"$out.rules.txt") || rules="exact - torch -"
    rm -rf "$out.kept"
    case $want in
    right) [ $rc = 0 ] || verdict=WRONG ;;
    caught) [ $rc = 1 ] || verdict=WRONG ;;
    slow) grep -q ' ops=0/' "$out.txt" || verdict=WRONG ;;
    any) ;;
    *" $form "* | "$form "* | *" $form" | "$form") [ $rc = 1 ] || verdict=WRONG ;;
    *) [ $rc = 0 ] || verdict=WRONG ;; # this form's numbers cannot show it
    esac
    [ $verdict = ok ] || wrong "builds-$form-$name: exit $rc"
    printf '%-12s %-15s %-5s %-4s %s %s  %s\n' "$form" "$name" "$verdict" "$rc" \
        "$(grep -oE '^verdict: [a-z]+|ops=[0-9/]+|slower=[0-9/]+' "$out.txt" | tr '\n' ' ')" "$rules" "$(named "$out.txt")" >>"$WORK/builds.txt"
}

# made SCRIPT BUILDS FILE WORD...: is FILE there? Else SCRIPT makes it, which takes nvcc, and a registry from which pip can download.
made() {
    [ -e "$3" ] || "$PYTHON" "$HERE/$1" "${CSRC:-fetch}" "$2" sm_90 "${@:4}" >"$WORK/builds.make.txt" 2>&1 ||
        { tail -n 5 "$WORK/builds.make.txt"; wrong "$1 cannot make $3"; return 1; }
}

# All builds beside all forms, and a table of them. BUILDS: a folder of exllama_builds.py; what is not there is made.
stage_exllama-builds() {
    local form options name want builds=${BUILDS:-$WORK/builds.out} kernel=gemm_half_q_half
    made exllama_builds.py "$builds" "$builds/builds.txt" || return
    echo "form         build           as it should be, exit, what was found, ops that other rules fail, where" >"$WORK/builds.txt"
    while IFS=: read -r form options; do
        [[ $form = *${FORMS:-}* ]] || continue
        # shellcheck disable=SC2086
        record_form "$form" exllama $options </dev/null || continue
        while read -r name want; do
            [ "$want" = slow ] && [ "$form" != plain ] || judge_build "$form" "$name" "$want" </dev/null
        done <"$builds/builds.txt"
    done <<<"$BUILD_FORMS"
    tee -a "$WORK/table.txt" <"$WORK/builds.txt"
}

# The same of Marlin. BUILDS: a folder of marlin_builds.py. Its own code gives the recorded bits, compiled by any nvcc: the order of its
# sums is written in the source.
stage_marlin-builds() {
    local form options name want builds kernel=Marlin all=${BUILDS:-$WORK/marlin-builds.out}
    echo "form         build           as it should be, exit, what was found, ops that other rules fail, where" >"$WORK/builds.txt"
    while IFS=: read -r form options; do
        [[ $form = *${FORMS:-}* ]] || continue
        builds=$all/$form
        [ "$form" != act ] || builds=$all/g128 # vLLM permutes the columns of A, and launches the same instances
        made marlin_builds.py "$all" "$builds/builds.txt" "$(basename "$builds")" || continue
        # shellcheck disable=SC2086
        record_form "marlin-$form" marlin $options </dev/null || continue
        while read -r name want; do
            # shellcheck disable=SC2053 # a pattern
            [[ $name = ${ONLY:-*} ]] || continue
            judge_build "marlin-$form" "$name" "$want" </dev/null
            [ "$name" != itself ] || grep -q 'all are bit-equal' "$WORK/builds-marlin-$form-itself.txt" ||
                wrong "builds-marlin-$form-itself: not every output is bitwise the recorded one"
        done <"$builds/builds.txt"
    done <<<"$MARLIN_FORMS"
    tee -a "$WORK/table.txt" <"$WORK/builds.txt"
}

# How small a slow-down is seen, in a model of 2048 x 11008: builds that are 2 % slower, in all shapes and in one, and an equal one, ROUNDS=10
# times each beside the same build (bench/detect/small_effect.sh). SLOWER="2 2_down": which.
stage_small-effect() {
    local builds=${BUILDS:-$WORK/builds.out} slower
    made exllama_builds.py "$builds" "$builds/builds.txt" || return
    TOKENS=64 record_form large exllama --hidden 2048 --ffn 11008 </dev/null || return
    for slower in ${SLOWER:-2 2_down}; do set -- "$@" "$builds/slow_$slower.fatbin"; done
    "$ROOT/bench/detect/small_effect.sh" "$form_fixture" "$WORK/small" "$builds/slow_0.fatbin" "$@" -- --only gemm_half_q_half \
        --max-ops "${SLOW_OPS:-96}" | tee -a "$WORK/table.txt"
}
