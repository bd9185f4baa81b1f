"""make_ops.py - describe random products with experts for tests/helpers/raw_ops."""
import os
import sys

import numpy

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../helpers"))
import raw_ops

rng = numpy.random.default_rng(11)


def moe(layer, dtype, m, n, k, group, experts, top_k, block, bits=4, zeros=False, act_order=False, bias=False, weights=True, **more):
    top, groups = 1 << bits, k // group
    zero = rng.integers(1, top, (experts, groups, n)) if zeros else numpy.full((experts, groups, n), top // 2)
    g_idx = numpy.stack([rng.permutation(numpy.arange(k) // group) for _ in range(experts)]) if act_order else None
    choice = numpy.concatenate([rng.permutation(experts)[:top_k] for _ in range(m)])
    raw_ops.moe(layer, dtype, raw_ops.ENCODE[dtype](rng.standard_normal((m, k))), rng.integers(0, top, (experts, k, n)), zero,
                raw_ops.ENCODE[dtype](rng.uniform(0.001, 0.02, (experts, groups, n))), group, choice, rng.random(m * top_k).astype(numpy.float32) if weights else None, block,
                bias=raw_ops.ENCODE[dtype](rng.standard_normal((experts, n))) if bias else None, g_idx=g_idx, bits=bits, **more)


moe("gate_up", "F16", 5, 128, 128, 64, 4, 2, 8)
moe("down", "BF16", 10, 64, 128, 64, 4, 1, 16, multiply=True)
moe("one_group", "F16", 3, 128, 128, 128, 4, 2, 8, bias=True, rounding="none")
moe("act_order", "F16", 4, 64, 256, 64, 3, 2, 8, act_order=True)
moe("zeros", "F16", 4, 64, 128, 32, 3, 2, 8, zeros=True, zero_offset=0)
moe("eight", "BF16", 4, 128, 64, 32, 3, 2, 16, bits=8)
moe("other_rank", "F16", 6, 64, 128, 64, 4, 2, 8, multiply=True, absent=(0, 2))
moe("odd_n", "F16", 2, 32, 128, 64, 4, 2, 8)
moe("odd_block", "F16", 2, 64, 128, 64, 4, 2, 4)

wna16 = {"symbol": "_moe_C::moe_wna16_gemm", "round_topk": False}
moe("wna16", "F16", 5, 96, 256, 64, 4, 2, 16, zeros=True, zero_offset=0, weights=False, **wna16)
moe("wna16_mul", "BF16", 10, 64, 128, 128, 4, 1, 16, multiply=True, absent=(1,), **wna16)
moe("wna16_eight", "F16", 3, 64, 128, 32, 3, 2, 8, bits=8, zeros=True, zero_offset=1, **wna16)
moe("wna16_act", "F16", 3, 64, 128, 32, 3, 2, 8, act_order=True, **wna16)
moe("wna16_wide", "F16", 3, 64, 128, 32, 3, 2, 128, **wna16)
