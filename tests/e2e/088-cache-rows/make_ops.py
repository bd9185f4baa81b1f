"""make_ops.py - describe ops that write rows into a cache for tests/helpers/raw_ops: numpy says what lies in the slots then."""
import os
import sys

import numpy

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../helpers"))
from raw_ops import ENCODE, means, op, tensor

rng = numpy.random.default_rng(29)
# All numbers that there are, by their code; the largest one stands for what is larger.
NUMBERS = {"F8_E4M3": numpy.array([(c & 7) * 2.0 ** -9 if c < 8 else (8 + (c & 7)) * 2.0 ** ((c >> 3) - 10) for c in range(127)]),
           "F8_E5M2": numpy.array([(c & 3) * 2.0 ** -16 if c < 4 else (4 + (c & 3)) * 2.0 ** ((c >> 2) - 17) for c in range(124)])}


def code_of(x, dtype):
    """The nearest number, of two the even one."""
    known = NUMBERS[dtype]
    near = numpy.abs(numpy.minimum(numpy.abs(x), known[-1])[..., None] - known)
    even = numpy.where(near <= near.min(-1, keepdims=True) * (1 + 1e-12), numpy.arange(len(known)) % 2, 2).argmin(-1)
    return (even | numpy.where(numpy.signbit(x), 0x80, 0)).astype(numpy.uint8)


def numbers(dtype, *shape):
    return ENCODE[dtype](rng.standard_normal(shape) * 1.5)


def stored(x, dtype, codes, scale):
    """[m, heads, head] as it lies in the cache."""
    return code_of(means(x, dtype) / scale.astype(float).reshape(1, -1, 1), codes) if codes else x


def rows(layer, symbol, dtype, slots, inputs, outs, codes, scales, **attrs):
    """inputs: role and [m, ...] of each; outs: what is stored, of each part."""
    slots = numpy.array(slots, numpy.int64)
    for part, out in enumerate(outs):
        out = out.reshape(len(slots), -1).copy()
        out[slots < 0] = 0
        op("cache_rows", f"{layer}.{part}", "_C_cache_ops::" + symbol, "none", m=len(slots), **({"part": part} if len(outs) > 1 else {}), **attrs)
        for role, x in inputs:
            tensor("in", role, dtype, x.reshape(len(slots), -1))
        tensor("in", "slots", "I64", slots)
        for role, scale in scales if codes else []:
            tensor("in", role, "F32", scale)
        tensor("out", "c", codes or dtype, out)


def flash(layer, dtype, slots, heads=2, head=16, block=4, codes=None, scales=(1.0,), symbol="reshape_and_cache_flash", **attrs):
    k, v = numbers(dtype, len(slots), heads, head), numbers(dtype, len(slots), heads, head)
    k_scale, v_scale = numpy.array(scales, numpy.float32), numpy.array(scales, numpy.float32) * numpy.float32(1.75)
    rows(layer, symbol, dtype, slots, [("a", k), ("value", v)], [stored(k, dtype, codes, k_scale), stored(v, dtype, codes, v_scale)], codes,
         [("k_scale", k_scale), ("v_scale", v_scale)], n=heads * head, block_size=block, head=head, **attrs)


def joint(layer, dtype, slots, codes=None):
    a, pe, scale = numbers(dtype, len(slots), 32), numbers(dtype, len(slots), 8), numpy.array([0.5], numpy.float32)
    rows(layer, "concat_and_cache_mla", dtype, slots, [("a", a), ("k_pe", pe)],
         [numpy.concatenate([stored(x[:, None], dtype, codes, scale)[:, 0] for x in (a, pe)], 1)], codes, [("k_scale", scale)], n=32, block_size=4)


FAR = [4000000001, 7, -1, 4000000000, 1 << 40, 5, -1]
for t in "F16", "BF16", "F32":
    flash("flash." + t, t, FAR)
flash("flash.apart", "BF16", FAR, apart=1)
flash("flash.no_slot", "F16", [-1, -1])
flash("flash.one_slot", "F16", [3, 3, 2])     # rows of one slot: any may be last
for t in "F16", "BF16", "F32":
    flash("flash.e4m3." + t, t, FAR, codes="F8_E4M3", scales=(0.03,))
flash("flash.e4m3.heads", "F16", FAR, codes="F8_E4M3", scales=(0.03, 0.004), apart=1)
flash("flash.e5m2", "BF16", FAR, codes="F8_E5M2", scales=(0.0001,))
flash("packed.F16", "F16", FAR, symbol="reshape_and_cache", x=8)
flash("packed.e4m3", "F16", FAR, codes="F8_E4M3", scales=(0.25,), symbol="reshape_and_cache", x=16)
joint("joint.BF16", "BF16", FAR)
joint("joint.e4m3", "F16", FAR, codes="F8_E4M3")
