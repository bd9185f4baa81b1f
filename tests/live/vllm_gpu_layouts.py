#!/usr/bin/env python3
# vllm_gpu_layouts.py - check that our exllama and Marlin layouts are those that vLLM's own CUDA
# kernels make.
#
# usage: vllm_gpu_layouts.py      run it in the root of the tree, with a Python that has vllm, torch and a GPU; needs gcc
#
# It compiles model/exllama_layout.c and model/marlin_layout.c into a library and compares them with
# gptq_shuffle and gptq_marlin_repack in both directions, on random weights of several sizes, 4 and
# 8 bits, with and without act-order (vLLM 0.26 has act-order there, 0.32 not). Exit 0: all equal.
# SPDX-License-Identifier: Apache-2.0
import ctypes
import inspect
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch

SIZES = [(128, 64), (256, 192), (384, 128), (4096, 4096), (11008, 4096)]
SOURCES = ["model/exllama_layout.c", "model/marlin_layout.c", "model/gptq.c", "common/error.c"]


def library(folder):
    """The linker drops all that is not exported, so the file readers of gptq.c need no libraries."""
    script, out = folder / "exports", folder / "layouts.so"
    script.write_text("{ global: td_exllama_*; td_marlin_*; local: *; };")
    subprocess.run(["gcc", "-std=c17", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-ffunction-sections", "-fdata-sections", "-I.", *SOURCES, "-o", str(out),
                    "-Wl,--gc-sections", f"-Wl,--version-script={script}"], check=True)
    return ctypes.CDLL(str(out))


def call(fn, bits, k, n, words, perm):
    out = np.zeros(words.size, np.uint32)
    p = None if perm is None else perm.astype(np.int32).ctypes.data_as(ctypes.c_void_p)
    rc = fn(ctypes.c_int(bits), ctypes.c_int64(k), ctypes.c_int64(n), words.ctypes.data_as(ctypes.c_void_p), p, out.ctypes.data_as(ctypes.c_void_p), None)
    assert rc == 0, (fn, rc)
    return out


def has_perm(op):
    return any(x in inspect.signature(op).parameters for x in ("perm", "q_perm"))


def on_gpu(words, k, n, bits):
    return torch.from_numpy(words.view(np.int32).reshape(k * bits // 32, n).copy()).cuda()


def vllm_exllama(ops, words, perm, k, n, bits):
    q = on_gpu(words, k, n, bits)
    p = torch.empty(0, dtype=torch.int32) if perm is None else torch.from_numpy(perm.astype(np.int32))
    ops.gptq_shuffle(q, *([p.cuda()] if has_perm(ops.gptq_shuffle) else []), bits)
    return q.cpu().numpy().view(np.uint32).ravel()


def vllm_marlin(ops, words, perm, k, n, bits):
    p = torch.empty(0, dtype=torch.int32) if perm is None else torch.from_numpy(perm.astype(np.int32))
    args = dict(b_q_weight=on_gpu(words, k, n, bits), size_k=k, size_n=n, num_bits=bits)
    if has_perm(ops.gptq_marlin_repack):
        args["perm"] = p.cuda()
    return ops.gptq_marlin_repack(**args).cpu().numpy().view(np.uint32).ravel()


def main():
    with tempfile.TemporaryDirectory() as folder:
        lib = library(pathlib.Path(folder))
    if not torch.cuda.is_available():
        print("no GPU: nothing was compared")
        return 77
    from vllm import _custom_ops as ops

    rng, bad = np.random.default_rng(5), 0
    layouts = [("exllama", lib.td_exllama_shuffle, lib.td_exllama_unshuffle, vllm_exllama, has_perm(ops.gptq_shuffle)),
               ("marlin", lib.td_marlin_repack, lib.td_marlin_unrepack, vllm_marlin, has_perm(ops.gptq_marlin_repack))]
    for name, there, back, peer, perms in layouts:
        for bits in (4, 8):
            for k, n in SIZES:
                words = rng.integers(0, 1 << 32, k * bits // 32 * n, dtype=np.uint32)
                for perm in [None] + ([rng.permutation(k)] if perms else []):
                    theirs = peer(ops, words, perm, k, n, bits)
                    same = (call(there, bits, k, n, words, perm) == theirs).all() and (call(back, bits, k, n, theirs, perm) == words).all()
                    print(f"{name:8} {bits} bits [{k}, {n}] {'act-order' if perm is not None else 'plain':9} {'equal' if same else 'DIFFERENT'}")
                    bad += not same
        if not perms:
            print(f"{name:8} this vLLM has no act-order")
    print(f"{bad} different")
    return bad > 0


sys.exit(main())
