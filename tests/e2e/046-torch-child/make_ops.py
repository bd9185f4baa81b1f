"""make_ops.py [KIND...] - describe random ops for tests/helpers/raw_ops. KIND: gemm, int4 (default: both), refused."""
import os
import sys

import numpy

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../helpers"))
import raw_ops

rng = numpy.random.default_rng(4)


def normal(dtype, *shape):
    return raw_ops.ENCODE[dtype](rng.standard_normal(shape))


def gemm(layer, dtype, m, n, k, bias=False, ld=0):
    raw_ops.gemm(layer, dtype, normal(dtype, m, k), normal(dtype, n, k), normal(dtype, n) if bias else None, ld)


def int4(layer, dtype, m, n, k, group, bias=False, zero=8, ld=0, **more):
    raw_ops.gptq(layer, dtype, normal(dtype, m, k), raw_ops.pack(rng.integers(0, 16, (k, n)), 0),
                 raw_ops.pack(numpy.full((k // group, n), zero - 1), 1),
                 raw_ops.ENCODE[dtype](rng.uniform(0.001, 0.02, (k // group, n))), group, normal(dtype, n) if bias else None,
                 ld=ld, **more)


kinds = sys.argv[1:] or ["gemm", "int4"]
if "gemm" in kinds:
    gemm("model.layers.0.o_proj", "BF16", 5, 64, 96)
    gemm("model.layers.0.qkv_proj", "BF16", 1, 96, 64, bias=True)
    gemm("model.layers.0.gate", "BF16", 3, 8, 33)
    gemm("lm_head", "BF16", 2, 1040, 576, ld=600)
    gemm("model.layers.1.o_proj", "F16", 4, 48, 64, bias=True)
    gemm("model.layers.2.o_proj", "F32", 4, 48, 64)
if "int4" in kinds:
    int4("model.layers.0.down_proj", "BF16", 5, 64, 128, 32)
    int4("model.layers.0.up_proj", "BF16", 1, 96, 64, 64, bias=True, ld=80)
    int4("model.layers.1.down_proj", "F16", 3, 32, 96, 96, bias=True)
if "refused" in kinds:
    int4("asymmetric", "BF16", 2, 32, 64, 32, zero=7)
    int4("act_order", "BF16", 2, 32, 64, 32, g_idx=rng.permutation(64) // 32)
    int4("odd_n", "BF16", 2, 40, 64, 32)
    int4("odd_k", "BF16", 2, 32, 48, 48)
