#!/usr/bin/env bash
# get_torch.sh CACHE - torch's libraries without its Python: libtorch_cpu.so, out of the wheel torch
# (BSD-3), and what it is linked with, out of NVIDIA's wheels of CUPTI and CUDA's runtime. No GPU
# and no driver is needed to load them. TORCH=2.9.1 asks for that version. Gives
# CACHE/torch/VERSION; the wheels (540 MB, before torch 2.10 900) are not kept.
# SPDX-License-Identifier: Apache-2.0
set -eu
CACHE=${1:?usage: get_torch.sh CACHE}
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/fetch.sh"
TORCH=${TORCH:-2.15.0}
TOP=$CACHE/torch/$TORCH

[ "$(uname -m)" = x86_64 ] || { echo "the wheel is for x86-64, this is $(uname -m)"; exit 77; }
tools python3=python3 pip3=python3-pip gcc=gcc readelf=binutils
[ -d "$TOP" ] && exit 0

# libraries REQUIREMENT NAME...: these files out of the wheel, into $TOP.new. What is loaded is C, so
# that any Python's wheel does.
libraries() {
    local wheels=$CACHE/dl/torch.new
    rm -rf "$wheels" && mkdir "$wheels"
    pip_get download -q --no-deps --no-cache-dir --only-binary=:all: --python-version 3.11 --platform manylinux_2_28_x86_64 \
        --platform manylinux_2_25_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 -d "$wheels" "$1"
    python3 - "$TOP.new" "$wheels"/*.whl "${@:2}" <<'PY'
import os, shutil, sys, zipfile
to, wheel, names = sys.argv[1], zipfile.ZipFile(sys.argv[2]), sys.argv[3:]
for inside in wheel.namelist():
    if os.path.basename(inside) in names:
        with wheel.open(inside) as src, open(os.path.join(to, os.path.basename(inside)), "wb") as dst:
            shutil.copyfileobj(src, dst, 1 << 20)
PY
    rm -rf "$wheels"
}

rm -rf "$TOP.new" && mkdir -p "$TOP.new"
libraries "torch==$TORCH" libtorch_cpu.so libc10.so libgomp.so.1
cuda=$(readelf -d "$TOP.new/libtorch_cpu.so" | sed -n 's/.*\[libcupti\.so\.\([0-9]*\)\].*/\1/p')
if [ -n "$cuda" ]; then
    suffix=
    [ "$cuda" -ge 13 ] || suffix=-cu$cuda
    libraries "nvidia-cuda-cupti$suffix==$cuda.*" "libcupti.so.$cuda"
    libraries "nvidia-cuda-runtime$suffix==$cuda.*" "libcudart.so.$cuda"
fi
mv "$TOP.new" "$TOP"
