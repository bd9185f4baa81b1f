#!/usr/bin/env bash
# get_llamacpp_old.sh CACHE - an older tree of llama.cpp, as PyPI's llama-cpp-python 0.3.36 carries
# it (MIT): its server and libraries. Gives CACHE/llamacpp_old/build/bin/llama-server and lib*.so.
# SPDX-License-Identifier: Apache-2.0
set -eu
CACHE=${1:?usage: get_llamacpp_old.sh CACHE}
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/fetch.sh"
TOP=$CACHE/llamacpp_old
SDIST=llama_cpp_python-0.3.36
mkdir -p "$TOP"

tools cmake=cmake ninja=ninja-build g++=g++ pip3=python3-pip
if [ ! -f "$TOP/src/CMakeLists.txt" ]; then
    download "$SDIST.tar.gz" llama-cpp-python==0.3.36
    unpack "$SDIST.tar.gz" "$SDIST/vendor/llama.cpp" "$TOP/src"
fi
if [ ! -x "$TOP/build/bin/llama-server" ]; then
    for_this=
    grep -q -w avx512f /proc/cpuinfo && for_this=-DGGML_AVX512=ON
    configure "$TOP/src" "$TOP/build" $for_this
    ninja -C "$TOP/build" -j "$JOBS" llama-server
fi
get_model
