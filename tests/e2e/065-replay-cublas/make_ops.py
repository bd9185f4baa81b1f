"""make_ops.py [bias] - layers that are not quantised, as torch leaves them to cuBLAS, for tests/helpers/raw_ops."""
import os
import sys

import numpy

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../helpers"))
import raw_ops

rng = numpy.random.default_rng(9)


def linear(layer, dtype, m, n, k, bias=False, ld=0):
    a, w, b = (raw_ops.ENCODE[dtype](rng.standard_normal(shape)) for shape in ((m, k), (n, k), (n,)))
    raw_ops.gemm(layer, dtype, a, w, b if bias else None, ld, "cublasLtMatmul" if bias else "cublasGemmEx")


if sys.argv[1:]:
    linear("model.layers.0.self_attn.qkv_proj", "BF16", 3, 96, 64, bias=True)
    linear("model.layers.0.mlp.gate", "F32", 3, 96, 64)
else:
    linear("model.layers.0.mlp.gate", "F16", 5, 72, 33)
    linear("lm_head", "BF16", 1, 1040, 576)
    linear("lm_head", "BF16", 60, 1040, 576, ld=600)
