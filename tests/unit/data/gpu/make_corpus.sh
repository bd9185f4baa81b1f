#!/bin/sh
# make_corpus.sh - make tests/fuzz/corpus/gpu_*: the smallest files of every kind. usage: NVCC=nvcc PTXAS12=.../ptxas make_corpus.sh (after make.py)
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")"
corpus=../../../fuzz/corpus nvcc=${NVCC:-nvcc} work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p $corpus/gpu_elf $corpus/gpu_fatbin $corpus/gpu_msgpack
both='-gencode arch=compute_80,code=[sm_80,compute_80] -fatbin tiny.cu'
$nvcc -arch=sm_90 -cubin tiny.cu -o $corpus/gpu_elf/nvcc13.cubin
$nvcc -arch=sm_90 -ptx tiny.cu -o "$work/t.ptx"
sed -i 's/.version 9.0/.version 8.7/' "$work/t.ptx"
"${PTXAS12:-ptxas}" -arch=sm_90 "$work/t.ptx" -o $corpus/gpu_elf/ptxas12.cubin
$nvcc $both --compress-mode=none -o $corpus/gpu_fatbin/raw.fatbin
$nvcc $both --compress-mode=size -o $corpus/gpu_fatbin/zstd.fatbin
$nvcc $both --compress-mode=speed -Xfatbin --compress-all -o $corpus/gpu_fatbin/lz4.fatbin
printf '.section .nv_fatbin,"a"\n.incbin "%s/zstd.fatbin"\n.zero 12\n.incbin "%s/lz4.fatbin"\n.section .note.GNU-stack\n' $corpus/gpu_fatbin $corpus/gpu_fatbin |
    as -o $corpus/gpu_elf/host.elf -
strip -g $corpus/gpu_elf/host.elf
cp object.hsaco $corpus/gpu_elf/
python3 - $corpus <<'EOF'
import struct, sys
corpus = sys.argv[1]
code = open('object.hsaco', 'rb').read()
ids = [b'host-x86_64-unknown-linux', b'hipv4-amdgcn-amd-amdhsa--gfx908', b'hipv4-amdgcn-amd-amdhsa--gfx906:xnack-']
head, at = b'__CLANG_OFFLOAD_BUNDLE__' + struct.pack('<Q', len(ids)), 32 + sum(24 + len(i) for i in ids)
for n, i in enumerate(ids):  # without the bundler's alignment to 4 KiB
    head += struct.pack('<QQQ', at, len(code) if n else 0, len(i)) + i
open(f'{corpus}/gpu_fatbin/bundle.hsaco', 'wb').write(head + code)
for path, out in ('object.hsaco', 'opencl'), ('bundle.hsaco', 'hip'):
    d = open(path, 'rb').read()
    i = d.index(b'AMDGPU\0\0')
    open(f'{corpus}/gpu_msgpack/{out}', 'wb').write(d[i + 8:i + 8 + struct.unpack_from('<I', d, i - 8)[0]])
EOF
