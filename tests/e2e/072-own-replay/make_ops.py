"""make_ops.py - describe random ops of an engineer's own operators, and some of vLLM's, for tests/helpers/raw_ops."""
import os
import sys

import numpy

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../helpers"))
import raw_ops

rng = numpy.random.default_rng(11)


def normal(dtype, *shape):
    return raw_ops.ENCODE[dtype](rng.standard_normal(shape))


def gptq(layer, symbol, m, n, k, group, zeros=8, bias=False, act_order=False, **more):
    groups = k // group
    points = rng.integers(1, 16, (groups, n)) if zeros is None else numpy.full((groups, n), zeros)
    raw_ops.gptq(layer, "F16", normal("F16", m, k), raw_ops.pack(rng.integers(0, 16, (k, n)), 0), raw_ops.pack(points - more.get("zero_offset", 1), 1),
                 raw_ops.ENCODE["F16"](rng.uniform(0.001, 0.02, (groups, n))), group, normal("F16", n) if bias else None,
                 rng.permutation(numpy.arange(k) // group) if act_order else None, symbol=symbol, **more)


gptq("mine", "mine::w4a16_gemm", 3, 64, 128, 64, zeros=None)
gptq("mine.bias", "mine::w4a16_gemm", 4, 64, 128, 32, bias=True)
gptq("mine.other_zeros", "mine::w4a16_gemm", 2, 64, 128, 64, zeros=None, zero_offset=0)
gptq("mine.act_order", "mine::w4a16_gemm", 2, 64, 128, 64, act_order=True)
raw_ops.gemm("plain", "F16", normal("F16", 3, 64), normal("F16", 48, 64), symbol="mine::linear")
raw_ops.gemm("plain.bias", "F16", normal("F16", 3, 64), normal("F16", 48, 64), normal("F16", 48), symbol="mine::linear")
gptq("machete", "_C::machete_mm", 3, 128, 128, 64)


def scaled(layer, dtype, out, m, n, k, each, **more):
    numbers = {"F8_E4M3": lambda *s: (rng.integers(0, 0x78, s) | rng.integers(0, 2, s) << 7).astype(numpy.uint8),
               "I8": lambda *s: rng.integers(-128, 128, s).astype(numpy.int8)}[dtype]
    scales = [rng.uniform(0.001, 0.02, size if each else 1).astype(numpy.float32) for size in (m, n)]
    raw_ops.scaled_mm(layer, dtype, out, numbers(m, k), numbers(n, k), *scales, symbol="mine::fp8_gemm", **more)


scaled("scaled", "F8_E4M3", "BF16", 3, 48, 64, True)
scaled("scaled.one", "F8_E4M3", "BF16", 2, 32, 40, False, bias=normal("BF16", 32))
scaled("scaled.azp", "I8", "BF16", 3, 32, 64, True, azp=numpy.array([3, -5, 7], numpy.int32), azp_adj=rng.integers(-900, 900, 32).astype(numpy.int32))
scaled("scaled.f16", "F8_E4M3", "F16", 2, 32, 64, True)


def experts(layer, m, n, k, group, count, top_k, block, weights=True, symbol="mine::experts_gemm", **more):
    choice = numpy.concatenate([rng.permutation(count)[:top_k] for _ in range(m)])
    raw_ops.moe(layer, "F16", normal("F16", m, k), rng.integers(0, 16, (count, k, n)), rng.integers(1, 16, (count, k // group, n)),
                rng.uniform(0.001, 0.02, (count, k // group, n)).astype(numpy.float16), group, choice,
                rng.random(m * top_k).astype(numpy.float32) if weights else None, block, symbol=symbol, round_topk=False, **more)


experts("experts", 5, 64, 128, 32, 4, 2, 4)
experts("experts.mul", 3, 64, 64, 64, 3, 1, 8, multiply=True)
experts("choices.no_weights", 3, 64, 64, 64, 3, 2, 8, weights=False)
experts("experts.act_order", 3, 64, 64, 32, 2, 2, 4, g_idx=numpy.stack([rng.permutation(numpy.arange(64) // 32) for _ in range(2)]))
experts("experts.vllm", 4, 64, 128, 64, 3, 2, 8, symbol="_moe_C::moe_wna16_gemm")
