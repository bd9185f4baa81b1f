"""make_ops.py - describe random products of 8-bit numbers for tests/helpers/raw_ops."""
import os
import sys

import numpy

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../helpers"))
import raw_ops

rng = numpy.random.default_rng(11)


def numbers(dtype, *shape):
    if dtype == "I8":
        return rng.integers(-128, 128, shape).astype(numpy.int8)
    return (rng.integers(0, 0x78, shape) | rng.integers(0, 2, shape) << 7).astype(numpy.uint8)


def scales(*shape):
    return rng.uniform(0.001, 0.02, shape).astype(numpy.float32)


def floats(layer, m, n, k, a_scales, w_scales, out="BF16", **more):
    raw_ops.scaled_mm(layer, "F8_E4M3", out, numbers("F8_E4M3", m, k), numbers("F8_E4M3", n, k), a_scales, w_scales, **more)


def integers(layer, m, n, k, zero=None, **more):
    w = numbers("I8", n, k)
    adj = w.sum(1, dtype=numpy.int32) if zero else None
    azp = rng.integers(-128, 128, m).astype(numpy.int32) if zero == "token" else None
    symbol = "_C::cutlass_scaled_mm" + ("_azp" if zero else "")
    raw_ops.scaled_mm(layer, "I8", "F16", numbers("I8", m, k), w, scales(m), scales(n), azp_adj=adj * 5 if zero == "tensor" else adj, azp=azp,
                      symbol=symbol, **more)


floats("fp8.tensor", 3, 48, 64, scales(1), scales(1))
floats("fp8.token", 5, 48, 80, scales(5), scales(48), out="F16", bias=raw_ops.ENCODE["F16"](rng.standard_normal(48)))
floats("fp8.one_row", 1, 32, 64, scales(1), scales(32))
floats("fp8.block", 3, 272, 256, scales(3, 2), scales(3, 2))
floats("fp8.block_bias", 2, 128, 128 * 3, scales(2, 3), scales(1, 3), bias=raw_ops.ENCODE["BF16"](rng.standard_normal(128)))
floats("fp8.odd_k", 2, 32, 40, scales(2), scales(1))
integers("int8", 4, 48, 96)
integers("int8.azp", 4, 32, 64, zero="token", bias=raw_ops.ENCODE["F16"](rng.standard_normal(32)))
integers("int8.azp_static", 4, 32, 64, zero="tensor")


def experts(layer, m, rows, n, k, a_scales, w_scales, **more):
    raw_ops.moe_scaled(layer, more.pop("out", "BF16"), numbers("F8_E4M3", m, k), numbers("F8_E4M3", len(rows), n, k), a_scales, w_scales, rows, **more)


experts("moe.token", 12, [3, 0, 2, 7], 48, 64, scales(12), scales(4, 48))
experts("moe.tensor", 80, [30, 20, 25], 32, 48, scales(1), scales(3), out="F16")
experts("moe.odd_k", 4, [3, 1], 32, 40, scales(4), scales(2))
