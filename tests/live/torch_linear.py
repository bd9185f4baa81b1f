"""torch_linear.py - describe linear layers that torch computes on a GPU, without or (--bias) with a
bias, for the program tests/helpers/raw_ops. Provider cuda must give the same bits:

    python3 tests/live/torch_linear.py [--bias] | build/tests/helpers/raw_ops FIXTURE
    bin/gate FIXTURE --lanes ops --build lib/td_kernels.fatbin \\
        --build-env TD_CUBLAS_LIBRARY=SITE/nvidia/cu13/lib/libcublas.so.13

The report must contain "all are bit-equal". The library must be torch's own. The tensors go into
the working folder (400 MB).
SPDX-License-Identifier: Apache-2.0"""
import os
import sys

import numpy
import torch

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../helpers"))
import raw_ops

TYPES = {"F16": torch.float16, "BF16": torch.bfloat16}


def stored(t):
    """As raw_ops has it: BF16 as uint16."""
    return t.view(torch.int16).cpu().numpy().view(numpy.uint16) if t.dtype == torch.bfloat16 else t.cpu().numpy()


def linear(dtype, m, n, k, lda=0):
    a = torch.randn(m, lda or k, device="cuda", dtype=TYPES[dtype])[:, :k]
    w = torch.randn(n, k, device="cuda", dtype=TYPES[dtype]) * 0.05
    bias = torch.randn(n, device="cuda", dtype=TYPES[dtype]) if "--bias" in sys.argv else None
    c = torch.nn.functional.linear(a, w, bias)
    raw_ops.op("gemm", f"m{m}_n{n}_k{k}_{dtype}", "cublasGemmEx" if bias is None else "cublasLtMatmul", "none", m=m, n=n, k=k, trans_b=1)
    for where, role, x, ld in (("in", "a", a.contiguous(), lda), ("in", "w", w, 0), ("in", "bias", bias, 0), ("out", "c", c, 0)):
        if x is not None:
            raw_ops.tensor(where, role, dtype, stored(x), ld)


torch.manual_seed(1)
for dtype in TYPES:
    for m in (1, 2, 3, 8, 17, 60):
        for n, k in ((1000, 576), (4096, 1024), (512, 4096), (32000, 2048)):
            linear(dtype, m, n, k)
    for m in (130, 512):
        for n, k in ((4096, 1024), (512, 4096)):
            linear(dtype, m, n, k)
    linear(dtype, 7, 73, 33)
    linear(dtype, 9, 512, 1024, lda=1088)
