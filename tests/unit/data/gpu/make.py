#!/usr/bin/env python3
"""make.py - make the golden files of this folder, and expected.h: what other people's programs say about them.

usage: NVCC=nvcc PTXAS12=.../ptxas CUOBJDUMP=.../cuobjdump HIPCC=hipcc CLANG=clang READELF=llvm-readelf make.py

Made with nvcc 13.0.88, hipcc of ROCm 5.2.3 (clang 15) and clang 14; cuobjdump 13.1.80 and ptxas 12.8.93 are those of the triton wheel. Names of anonymous
namespaces hold a hash of the file's path: made elsewhere, they differ. expected.h is read by tests/unit/kernels/gpucode/test_gpu_image.c.
SPDX-License-Identifier: Apache-2.0
"""
import os, re, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
tool = {k: os.environ.get(k, v) for k, v in dict(NVCC='nvcc', PTXAS12='ptxas', CUOBJDUMP='cuobjdump', HIPCC='hipcc', CLANG='clang', READELF='llvm-readelf').items()}


def run(*args):
    return subprocess.run(args, check=True, cwd=HERE, stdout=subprocess.PIPE, text=True).stdout


def nvcc(out, *args):
    run(tool['NVCC'], '-std=c++17', *args, '-o', out)


def gen(*pairs):
    return [a for real, code in pairs for a in ('-gencode', f'arch=compute_{real},code={code}')]


def make():
    a80, a90, a90a = ('80', 'sm_80'), ('90', '[sm_90,compute_90]'), ('90a', 'sm_90a')
    nvcc('zstd.fatbin', *gen(a80, a90a, a90), '--compress-mode=size', '-fatbin', 'sample.cu')
    nvcc('lz4.fatbin', *gen(a80, a90), '--compress-mode=speed', '-Xfatbin', '--compress-all', '-fatbin', 'sample.cu')
    nvcc('ptx.fatbin', *gen(('80', 'compute_80')), '-fatbin', 'sample.cu')
    nvcc('more.fatbin', *gen(('90', 'sm_90'), ('100f', 'sm_100f')), '--compress-mode=size', '-fatbin', 'more.cu')
    nvcc('rdc.fatbin', '-rdc=true', *gen(('90', 'sm_90')), '--compress-mode=size', '-fatbin', 'more.cu')
    nvcc('raw.cubin', '-arch=sm_90a', '-DSMALL', '-cubin', 'sample.cu')
    nvcc('lib.so', *gen(a90), '--compress-mode=size', '-cudart', 'none', '-shared', '-Xcompiler', '-fPIC,-nostdlib', '-Xlinker', '-s,--build-id=none',
         'sample.cu', 'more.cu')
    with tempfile.TemporaryDirectory() as t:  # a cubin as CUDA 12 writes it: ELF ABI version 7
        nvcc(f'{t}/x.ptx', '-arch=sm_90', '-DSMALL', '-ptx', 'sample.cu')
        text = open(f'{t}/x.ptx').read().replace('.version 9.0', '.version 8.7').replace('sm_90', 'sm_90a')
        open(f'{t}/x.ptx', 'w').write(text)
        run(tool['PTXAS12'], '-arch=sm_90a', f'{t}/x.ptx', '-o', 'old.cubin')
    run(tool['HIPCC'], '--genco', '--offload-arch=gfx906', '--offload-arch=gfx90a:xnack-', 'sample.hip', '-o', 'bundle.hsaco')
    run(tool['HIPCC'], '--offload-arch=gfx906', '-shared', '-fPIC', '-s', '-nostdlib', '-Wl,--build-id=none', 'sample.hip', '-o', 'libhip.so')
    run(tool['CLANG'], '-x', 'cl', '-cl-std=CL2.0', '-target', 'amdgcn-amd-amdhsa', '-mcpu=gfx908', '-nogpulib', '-O2', 'sample.cl', '-o', 'object.hsaco')
    os.chmod(f'{HERE}/lib.so', 0o644), os.chmod(f'{HERE}/libhip.so', 0o644), os.chmod(f'{HERE}/object.hsaco', 0o644)


def cuda_rows(name, arch_of_cubin=None):
    usage, info, arch, order = {}, {}, arch_of_cubin, 0
    for line in run(tool['CUOBJDUMP'], '-res-usage', name).splitlines():
        if m := re.match(r'arch = (\S+)', line):
            arch, order = m[1], order + 1
        elif m := re.match(r'\s*Function (\S+):', line):
            fn = m[1]
        elif m := re.match(r'\s*REG:(\d+) STACK:\d+ SHARED:(\d+)', line):
            usage[order, fn] = arch, int(m[1]), int(m[2])
    order, section, attr = 0, None, None
    for line in run(tool['CUOBJDUMP'], '-elf', name).splitlines():
        if line.startswith('arch = '):
            order += 1
        elif m := re.match(r'\.nv\.info\.(\S+)$', line):
            section = info.setdefault((order, m[1]), {'params': {}})
        elif line.startswith('.'):
            section = None
        elif m := re.match(r'\s*Attribute:\s+(\S+)', line):
            attr = m[1]
        elif section is not None and (m := re.match(r'\s*Value:\s+(.*)', line)):
            n = [int(x, 16) for x in re.findall(r'0x[0-9a-f]+', m[1])]
            if attr.startswith('EIATTR_KPARAM_INFO'):
                section['params'][n[1]] = n[2], n[3] & 0xffff
            else:
                section[attr] = n
    for key, (arch, regs, shared) in usage.items():
        i = info[key]
        sm = int(re.sub(r'\D', '', arch))
        block = i.get('EIATTR_REQNTID', [0, 0, 0])
        most = i.get('EIATTR_MAX_THREADS', block)
        yield (name, arch, key[1], regs, shared - 1024 if sm >= 90 and shared >= 1024 else shared, i['EIATTR_CBANK_PARAM_SIZE'][0] if 'EIATTR_CBANK_PARAM_SIZE' in i else 0,
               most[0] * most[1] * most[2], block, i.get('EIATTR_CTA_PER_CLUSTER', [0, 0, 0]), [i['params'][k] for k in sorted(i['params'])], '')


def amd_rows(name, arch, path):
    text = run(tool['READELF'], '--notes', path)
    for part in re.split(r'\n  - (?=\.)', text)[1:]:
        get = lambda k, d=0: int(m[1]) if (m := re.search(r'\n    \.%s:\s+(\d+)' % k, part)) else d
        args = [dict(re.findall(r'\.(\w+):\s+(\S+)', a)) for a in re.split(r'\n      - (?=\.)', part.split('\n    .group')[0])[1:]]
        args = [a for a in args if not a['value_kind'].startswith('hidden_')]
        block = re.search(r'\.reqd_workgroup_size:\s+- (\d+)\s+- (\d+)\s+- (\d+)', part)
        yield (name, arch, re.search(r'\n    \.name:\s+(\S+)', part)[1], get('vgpr_count'), get('group_segment_fixed_size'), get('kernarg_segment_size'),
               get('max_flat_workgroup_size'), [int(x) for x in block.groups()] if block else [0, 0, 0], [0, 0, 0],
               [(int(a['offset']), int(a['size'])) for a in args], ''.join('p' if a['value_kind'] == 'global_buffer' else '.' for a in args))


def expected():
    rows = [r for f in ('zstd.fatbin', 'lz4.fatbin', 'more.fatbin', 'lib.so') for r in cuda_rows(f)]
    rows += list(cuda_rows('raw.cubin', 'sm_90a')) + list(cuda_rows('old.cubin', 'sm_90a'))
    with tempfile.TemporaryDirectory() as t:
        bundler = os.path.join(os.path.dirname(run('readlink', '-f', run('which', tool['CLANG']).strip()).strip()), 'clang-offload-bundler')
        for arch in 'gfx906', 'gfx90a:xnack-':
            run(bundler, '--type=o', '--unbundle', f'--inputs={HERE}/bundle.hsaco', f'--outputs={t}/o', f'--targets=hipv4-amdgcn-amd-amdhsa--{arch}')
            rows += amd_rows('bundle.hsaco', arch, f'{t}/o')
    rows += amd_rows('object.hsaco', 'gfx908', 'object.hsaco')
    triple = lambda t: '{%d, %d, %d}' % tuple(t)
    with open(f'{HERE}/expected.h', 'w') as f:
        f.write('/* made by make.py from the output of cuobjdump and llvm-readelf: file, arch, symbol, registers, static shared, bytes of parameters, most threads,\n'
                ' * block, cluster, parameters {offset, size}, AMD: which of them point to global memory */\n')
        for name, arch, symbol, regs, shared, block_bytes, most, block, cluster, params, pointers in rows:
            f.write('{"%s", "%s",\n "%s",\n %d, %d, %d, %d, %s, %s, %d, {%s}, "%s"},\n' % (name, arch, symbol, regs, shared, block_bytes, most, triple(block), triple(cluster),
                    len(params), ', '.join('{%d, %d}' % p for p in params) or '{0, 0}', pointers))


if __name__ == '__main__':
    if sys.argv[1:] != ['expected']:
        make()
    expected()
