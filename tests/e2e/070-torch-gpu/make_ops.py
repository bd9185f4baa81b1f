"""make_ops.py - describe random ops of a vLLM on a GPU for tests/helpers/raw_ops."""
import os
import sys

import numpy

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../helpers"))
import raw_ops

rng = numpy.random.default_rng(7)
MACHETE, MARLIN, EXLLAMA, ALLSPARK = "_C::machete_mm", "_C::marlin_gemm", "_C::gptq_gemm", "_C::allspark_w8a16_gemm"
AWQ, DEQUANTIZE = "_C::awq_gemm", "_C::awq_dequantize"


def normal(dtype, *shape):
    return raw_ops.ENCODE[dtype](rng.standard_normal(shape))


def gptq(layer, symbol, dtype, m, n, k, group, bits=4, zeros=None, act_order=False, bias=False, **more):
    groups, top = k // group, 1 << bits
    zeros = numpy.full((groups, n), top // 2) if zeros is None else zeros
    g_idx = rng.permutation(numpy.arange(k) // group) if act_order else None
    raw_ops.gptq(layer, dtype, normal(dtype, m, k), raw_ops.pack(rng.integers(0, top, (k, n)), 0, bits),
                 raw_ops.pack(zeros - more.get("zero_offset", 1), 1, bits), raw_ops.ENCODE[dtype](rng.uniform(0.001, 0.02, (groups, n))),
                 group, normal(dtype, n) if bias else None, g_idx, bits=bits, symbol=symbol, **more)


def any_zeros(groups, n):
    return rng.integers(1, 16, (groups, n))


gptq("machete", MACHETE, "F16", 5, 128, 256, 64)
gptq("machete.8", MACHETE, "BF16", 1, 256, 128, 64, bits=8)
gptq("machete.act_order", MACHETE, "F16", 3, 128, 256, 64, act_order=True)
gptq("machete.one_group", MACHETE, "F16", 3, 128, 128, 128)
gptq("machete.zeros", MACHETE, "F16", 3, 128, 128, 64, zeros=any_zeros(2, 128), zero_offset=0, rounding="zero-f16")
gptq("machete.zeros.8", MACHETE, "BF16", 3, 128, 128, 128, zeros=numpy.full((1, 128), 8), zero_offset=0, rounding="zero-bf16")
gptq("machete.odd_n", MACHETE, "F16", 2, 64, 128, 64)
gptq("marlin", MARLIN, "F16", 4, 64, 128, 64, bias=True)
gptq("marlin.8", MARLIN, "BF16", 4, 128, 64, 64, bits=8, rounding="none")
gptq("marlin.act_order", MARLIN, "BF16", 4, 64, 256, 64, act_order=True)
gptq("marlin.padded", MARLIN, "F16", 4, 96, 160, 32, bias=True)
gptq("marlin.zeros", MARLIN, "F16", 4, 64, 128, 32, zeros=any_zeros(4, 64), zero_offset=0)
gptq("exllama", EXLLAMA, "F16", 4, 64, 96, 32, rounding="none")
gptq("exllama.act_order", EXLLAMA, "F16", 4, 64, 128, 64, act_order=True, rounding="none")
gptq("exllama.many", EXLLAMA, "F16", 51, 64, 96, 32, zeros=any_zeros(3, 64))
gptq("exllama.bf16", EXLLAMA, "BF16", 2, 64, 96, 32)
gptq("allspark", ALLSPARK, "F16", 4, 80, 64, 64, bits=8, bias=True)
gptq("allspark.bf16", ALLSPARK, "BF16", 2, 64, 48, 48, bits=8)
gptq("allspark.groups", ALLSPARK, "F16", 2, 64, 64, 32, bits=8)
gptq("awq", AWQ, "F16", 5, 128, 128, 64, zeros=any_zeros(2, 128), zero_offset=0)
gptq("awq.bias", AWQ, "F16", 2, 64, 96, 32, bias=True)
gptq("awq.many", DEQUANTIZE, "F16", 260, 64, 72, 72, zeros=any_zeros(1, 64), zero_offset=0)
gptq("awq.bf16", AWQ, "BF16", 2, 64, 64, 32)
gptq("awq.group", AWQ, "F16", 2, 64, 128, 128)
gptq("awq.zero16", AWQ, "F16", 2, 64, 64, 32, zeros=numpy.full((2, 64), 16))
gptq("unnamed", "some_kernel", "F16", 4, 64, 128, 64)
raw_ops.gemm("linear", "BF16", normal("BF16", 3, 64), normal("BF16", 48, 64), normal("BF16", 48), ld=70, symbol="cublasLtMatmul")
