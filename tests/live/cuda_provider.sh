#!/usr/bin/env bash
# cuda_provider.sh - test provider cuda on a real GPU: our kernels pass, their f16 sums are
# regressed, a write past the end is caught, two builds are timed; with VLLM_LIB the same with
# vLLM's own kernels.
# usage: BIN=.. LIB=.. O=.. [VLLM_LIB=.../_C_stable_libtorch.abi3.so] tests/live/cuda_provider.sh [FOLDER]
# It takes two minutes, with VLLM_LIB five.
# Needs make_ops (make tests) and lib/td_kernels.fatbin (make with nvcc). The write past the end
# also needs nvcc on this machine. Prints one line a case: the result, and whether it is the
# expected one. Exit 0: all are.
# SPDX-License-Identifier: Apache-2.0
set -u
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BIN=${BIN:-$ROOT/bin} LIB=${LIB:-$ROOT/lib} O=${O:-$ROOT/build}
work=${1:-$(mktemp -d)}
mkdir -p "$work" && cd "$work" || exit 1
ours=$LIB/td_kernels.fatbin
bad=0

# want NAME EXIT PATTERN ARGUMENTS...: run gate; its exit code must be EXIT, and its report must
# contain PATTERN
want() {
    local name=$1 code=$2 pattern=$3 rc line
    shift 3
    "$BIN/gate" "$@" >"$name.txt" 2>"$name.err"
    rc=$?
    line=$(tail -n 1 "$name.txt")
    [ -s "$name.txt" ] || line=$(tail -n 1 "$name.err")
    if [ $rc = "$code" ] && grep -q -- "$pattern" "$name.txt"; then
        printf 'ok    %-22s exit %d  %s\n' "$name" $rc "$line"
    else
        printf 'WRONG %-22s exit %d (due %s, "%s")  %s\n' "$name" $rc "$code" "$pattern" "$line"
        bad=1
    fi
}

rm -rf cpu gpu
"$O/tests/helpers/make_ops" cpu steps=4 || exit 1
want ours 0 'pass' cpu --build "$ours" --lanes ops
want ours-exllama 0 'pass' cpu --build "$ours" --lanes ops --build-env TD_CUDA_KERNEL=exllama
want ours-f16-sums 1 'regressed' cpu --build "$ours" --lanes ops --build-env TD_CUDA_KERNEL=bit_f16
want no-such-kernel 3 'holds no kernel' cpu --build "$ours" --lanes ops --build-env TD_CUDA_KERNEL=nothing
want no-device 4 '' cpu --build "$ours" --lanes ops --build-env CUDA_VISIBLE_DEVICES=
if command -v nvcc >/dev/null; then
    nvcc -fatbin -arch=native "$ROOT/tests/live/cuda_overrun.cu" -o overrun.fatbin 2>nvcc.err || nvcc -fatbin -arch=sm_90 "$ROOT/tests/live/cuda_overrun.cu" -o overrun.fatbin
    want past-the-end 1 'ILLEGAL_ADDRESS' cpu --build overrun.fatbin --lanes ops
else
    echo 'skip  past-the-end: no nvcc here'
fi
"$BIN/replay" cpu -o timed --build "$ours" --build-env TD_CUDA_KERNEL=exllama --baseline-build "$ours" --only '*q_proj*' >timed.txt 2>&1
grep -oE '[0-9]+ timed in both builds' timed.txt || { echo 'WRONG timed'; tail -n 2 timed.txt; bad=1; }
zstd -dcq timed/ops.jsonl.zst 2>/dev/null | grep -oE '"hot":\[[^]]*\]' | head -n 2
if [ -n "${VLLM_LIB:-}" ]; then
    TD_MAKE_OPS_BUILD=$VLLM_LIB "$O/tests/helpers/make_ops" gpu steps=4 gpu=1 || bad=1
    want vllm-itself 0 'pass' gpu --build "$VLLM_LIB" --lanes ops
    want vllm-by-ours 0 'pass' gpu --build "$ours" --lanes ops
    want vllm-against-cpu 1 'regressed' cpu --build "$VLLM_LIB" --lanes ops # it adds halves: not as exact as the recording
    zstd -dcq gpu/ops.jsonl.zst >/dev/null && "$BIN/replay" gpu -o again --build "$VLLM_LIB" --op-repeat 8 | head -n 8
    zstd -dcq again/ops.jsonl.zst | grep -oE '"unstable":[0-9]+,"spread":[0-9.e-]+' | tail -n 8 | tr '\n' ' '
    echo
    "$BIN/replay" --kernels "$VLLM_LIB" gptq | head -n 12
    # Marlin: recorded from its library by the launches of an H100, and by our CPU kernels, which round weights as it does
    echo '{"name":"exact weights","numerics":{"accept_format_change":true}}' >exact.json
    rm -rf marlin marlin-cpu
    TD_MAKE_OPS_BUILD=$VLLM_LIB "$O/tests/helpers/make_ops" marlin steps=4 marlin=1 || bad=1
    env -u TD_MAKE_OPS_BUILD "$O/tests/helpers/make_ops" marlin-cpu steps=4 marlin=1 || bad=1
    want marlin-itself 0 'all are bit-equal' marlin --build "$VLLM_LIB" --lanes ops
    want marlin-is-right 0 'pass' marlin-cpu --build "$VLLM_LIB" --lanes ops
    want marlin-by-cpu 0 'pass' marlin --provider cpu --lanes ops
    want marlin-by-ours 0 'pass' marlin --build "$ours" --lanes ops --policy exact.json
    want marlin-other-format 0 'another format' marlin --build "$ours" --lanes ops
    # by vLLM's rules instead of a recording: these ops are not symmetric, some in any order
    want marlin-asymmetric 3 'undecided' cpu --build "$VLLM_LIB" --lanes ops --build-env TD_CUDA_KERNEL=Marlin
fi
exit $bad
