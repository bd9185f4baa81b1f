#!/usr/bin/env bash
# on_gpu.sh - how long the judge takes for a recording of 4,000 ops (2048 x 22016 and smaller, four layers, 4 bit), by GPU and by CPU.
# SPDX-License-Identifier: Apache-2.0
#
# usage: bench/judge/on_gpu.sh [steps=250] [layers=4] ...        (more: make_recording.c)
# Needs bin/, lib/ and build/bench/judge/make_recording, which `make build/bench/judge/make_recording` builds, and no compiler.
# BASE=DIR: where the recording (2 GB) and the replays lie (default /tmp/td-judge); a recording that is there is used again.
# WHERE="gpu cpu auto": who computes the references, in turn. PROVIDER=cpu without a GPU.
set -eu
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
BASE=${BASE:-/tmp/td-judge} PROVIDER=${PROVIDER:-cuda}
build=$ROOT/lib/td_kernels.fatbin
[ "$PROVIDER" = cuda ] || build=$ROOT/lib/libtdkernels.so
mkdir -p "$BASE"
nproc; nvidia-smi --query-gpu=name,driver_version,compute_mode --format=csv,noheader 2>/dev/null || true
if [ ! -d "$BASE/fx" ]; then
    [ "$PROVIDER" = cuda ] && with=("$build") || with=()
    time "$ROOT/build/bench/judge/make_recording" "$BASE/fx" "$PROVIDER" "${with[@]}" "$@"
fi
du -sh "$BASE/fx"
for where in ${WHERE:-gpu auto cpu}; do
    rm -rf "$BASE/out"
    echo "== --reference $where"
    time TD_LOG=replay:2 "$ROOT/bin/replay" "$BASE/fx" -o "$BASE/out" --build "$build" --reference "$where" --cache off 2>&1 | grep -E '^reference|judged in|^replay: |error|WARN|warn' || true
done
rm -rf "$BASE/kept"
echo "== gate --lanes ops"
time TD_LOG=gate:2,replay:2 "$ROOT/bin/gate" "$BASE/fx" --build "$build" --lanes ops --time all --cache off --keep "$BASE/kept" 2>&1 | tail -24 || true
