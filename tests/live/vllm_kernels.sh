#!/usr/bin/env bash
# vllm_kernels.sh VENV BF16_MODEL GPTQ_MODEL - vLLM's own kernels as a build: real weights through `replay --build VENV`, each op judged.
# The packings are compared with vLLM's Python first. Where the CPU has no 4-bit kernels their ops must be `unsupported`, with the reason;
# on AMX both kernels run, W4A8 and (VLLM_CPU_INT4_W4A8=0) W4A16. Needs `make tests` (BIN, O: where); exit 1: something is wrong.
# SPDX-License-Identifier: Apache-2.0
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BIN=${BIN:-$ROOT/bin} O=${O:-$ROOT/build}
[ $# = 3 ] || { sed -n 2p "$0" >&2; exit 2; }
python=$1/bin/python
[ -x "$python" ] || { echo "$1: no venv (no bin/python)" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

"$python" "$ROOT/tests/live/vllm_layout.py" 2>"$work/err" || { tail -n 5 "$work/err"; failed=1; }

judge() { # NAME MODEL [options of replay]
    local name=$1 model=$2 fixture=$work/of-${2##*/}
    shift 2
    if [ ! -d "$fixture" ]; then
        mkdir "$work/raw"
        (cd "$work/raw" && "$python" "$ROOT/tests/live/real_ops.py" "$model" | "$O/tests/helpers/raw_ops" "$fixture")
        rm -rf "$work/raw"
    fi
    echo "== $name"
    "$BIN/replay" "$fixture" -o "$work/$name" --build "$python" "$@" 2>&1 | grep -v "^$work"
    zstd -dcq "$work/$name/ops.jsonl.zst" | "$python" "$ROOT/tests/live/kernel_scores.py" || failed=1
}
judge bf16 "$2"
judge int4 "$3"
judge int4-w4a16 "$3" --build-env VLLM_CPU_INT4_W4A8=0
exit $failed
