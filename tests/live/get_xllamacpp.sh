#!/usr/bin/env bash
# get_xllamacpp.sh CACHE - llama.cpp's server as a wheel, without a compiler (PyPI xllamacpp, MIT),
# and a real model (get_model). Gives CACHE/xllamacpp (for PYTHONPATH) and CACHE/model.gguf.
# SPDX-License-Identifier: Apache-2.0
set -eu
CACHE=${1:?usage: get_xllamacpp.sh CACHE}
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/fetch.sh"
WHEEL=xllamacpp-2026.10.11549-cp310-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64.whl

[ "$(uname -m)" = x86_64 ] || { echo "the wheel is for x86-64, this is $(uname -m)"; exit 77; }
tools python3=python3 pip3=python3-pip
if [ ! -d "$CACHE/xllamacpp" ]; then
    download "$WHEEL" xllamacpp==2026.10.11549
    rm -rf "$CACHE/xllamacpp.new"
    python3 -m zipfile -e "$CACHE/dl/$WHEEL" "$CACHE/xllamacpp.new"
    mv "$CACHE/xllamacpp.new" "$CACHE/xllamacpp"
fi
get_model
