#!/usr/bin/env bash
# get_llamacpp_builds.sh CACHE - builds of llama.cpp's CPU kernels with one edit each, from the tree
# that get_llamacpp.sh has made. Gives CACHE/llamacpp/builds/NAME/libggml-{base,cpu}.so, and
# builds.txt (llamacpp_builds.py); and the model in two other quantisations, made out of
# CACHE/model.gguf by llama.cpp's own llama-quantize: CACHE/model-q8_0.gguf, CACHE/model-q4_k.gguf.
# SPDX-License-Identifier: Apache-2.0
set -eu
CACHE=${1:?usage: get_llamacpp_builds.sh CACHE}
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/fetch.sh"
TOP=$CACHE/llamacpp

begin_edit "$TOP"
JOBS=$JOBS python3 -B "$HERE/llamacpp_builds.py" "$TOP/src" "$TOP/patched.src" "$TOP/patched" "$TOP/builds"
end_edit "$TOP"

quantised() { # NAME TYPE
    [ -f "$CACHE/model-$1.gguf" ] && return
    ninja -C "$TOP/build" -j "$JOBS" llama-quantize
    "$TOP/build/bin/llama-quantize" --allow-requantize "$CACHE/model.gguf" "$CACHE/model-$1.gguf.new" "$2" "$JOBS"
    mv "$CACHE/model-$1.gguf.new" "$CACHE/model-$1.gguf"
}
quantised q8_0 Q8_0
quantised q4_k Q4_K_M
