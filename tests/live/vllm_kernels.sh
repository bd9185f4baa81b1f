#!/usr/bin/env bash
# vllm_kernels.sh VENV BF16_MODEL GPTQ_MODEL - replay ops with real weights on vLLM's own CPU
# kernels, and judge each op. First vllm_layout.py compares the packings with vLLM's Python. On a
# CPU without 4-bit kernels the 4-bit ops must be `unsupported`, with the reason; with AMX both
# kernels run: W4A8, and W4A16 (VLLM_CPU_INT4_W4A8=0). Needs `make tests`; BIN and O name the
# folders. Exit 1: something is wrong.
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
