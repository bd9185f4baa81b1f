"""make_ops.py - describe ops that stand beside products for tests/helpers/raw_ops: numpy computed their outputs."""
import os
import sys

import numpy

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../helpers"))
from raw_ops import ENCODE, means, op, tensor

rng = numpy.random.default_rng(23)


def numbers(dtype, *shape):
    return ENCODE[dtype](rng.standard_normal(shape) * 1.5)


def put_out(dtype, x):
    tensor("out", "c", dtype, ENCODE[dtype](x))


def norm(x, w, eps, n):
    vectors = x.reshape(x.shape[0], -1, n)
    return (vectors / numpy.sqrt((vectors ** 2).mean(2, keepdims=True) + eps) * w).reshape(x.shape)


def eps_of(value):
    tensor("in", "eps", "F32", numpy.array([value], numpy.float32))


def rms_norm(layer, dtype, m, cols, n, eps, weights=True, ld=0):
    a = numbers(dtype, m, cols)
    op("rms_norm", layer, "_C::rms_norm", "none", m=m, n=n)
    tensor("in", "a", dtype, a, ld)
    eps_of(eps)
    w = numbers(dtype, n) if weights else None
    if weights:
        tensor("in", "w", dtype, w)
    put_out(dtype, norm(means(a, dtype), means(w, dtype) if weights else 1, float(numpy.float32(eps)), n))


for t in "F16", "BF16", "F32":
    rms_norm("norm." + t, t, 3, 64, 64, 1e-5)
rms_norm("norm.heads", "F32", 2, 96, 32, 1e-6)
rms_norm("norm.no_weight", "F16", 2, 48, 48, 1e-5, weights=False)
rms_norm("norm.large_eps", "F32", 2, 48, 48, 0.75)
rms_norm("norm.gaps", "BF16", 3, 40, 40, 1e-5, ld=56)


# ---- a norm that adds, an activation, rotary embeddings: an op for each output of a call ---------------------------------


def fused(layer, dtype, m, n, eps):
    a, residual, w = numbers(dtype, m, n), numbers(dtype, m, n), numbers(dtype, n)
    total = ENCODE[dtype](means(a, dtype) + means(residual, dtype))
    for part, out in enumerate((norm(means(total, dtype), means(w, dtype), float(numpy.float32(eps)), n), means(total, dtype))):
        op("fused_add_rms_norm", f"{layer}.{part}", "_C::fused_add_rms_norm", "none", m=m, n=n, part=part)
        tensor("in", "a", dtype, a)
        tensor("in", "residual", dtype, residual)
        eps_of(eps)
        tensor("in", "w", dtype, w)
        put_out(dtype, out)


def silu(layer, dtype, m, n, scale=1.0):
    a = ENCODE[dtype](means(numbers(dtype, m, 2 * n), dtype) * scale)
    gate, up = means(a, dtype)[:, :n], means(a, dtype)[:, n:]
    op("silu_and_mul", layer, "_C::silu_and_mul", "none", m=m, n=n)
    tensor("in", "a", dtype, a)
    put_out(dtype, gate / (1 + numpy.exp(-gate)) * up)


def turn(x, table, head, neox, offset, inverse):
    """As the definition has it: each pair is a complex number times that of its angle."""
    heads, half = x.reshape(x.shape[0], -1, head), table.shape[1] // 2
    angle = (table[:, :half] + 1j * table[:, half:] * (-1 if inverse else 1))[:, None]
    out = heads.copy()
    part = heads[..., offset:offset + 2 * half]
    pairs = part[..., :half] + 1j * part[..., half:] if neox else part[..., 0::2] + 1j * part[..., 1::2]
    pairs = pairs * angle
    where = out[..., offset:offset + 2 * half]
    if neox:
        where[..., :half], where[..., half:] = pairs.real, pairs.imag
    else:
        where[..., 0::2], where[..., 1::2] = pairs.real, pairs.imag
    return out.reshape(x.shape)


def rotary(layer, dtype, m, head, heads, key_heads, rot, neox, offset=0, inverse=0, table_dtype=None, integers=numpy.int64):
    table_dtype = table_dtype or dtype
    positions = rng.integers(0, 50, m).astype(integers)
    angles = numpy.arange(50)[:, None] * 100.0 ** (-numpy.arange(rot // 2) / (rot // 2))
    table = ENCODE[table_dtype](numpy.concatenate([numpy.cos(angles), numpy.sin(angles)], 1))
    x = [numbers(dtype, m, head * heads)] + ([numbers(dtype, m, head * key_heads)] if key_heads else [])
    for part in range(len(x)):
        op("rotary_embedding", f"{layer}.{part}", "_C::rotary_embedding", "none", m=m, n=head, neox=neox, offset=offset, inverse=inverse,
           **({"part": part} if key_heads else {}))
        tensor("in", "positions", "I64" if integers is numpy.int64 else "I32", positions)
        tensor("in", "a", dtype, x[0])
        if key_heads:
            tensor("in", "key", dtype, x[1])
        tensor("in", "cos_sin", table_dtype, table)
        put_out(dtype, turn(means(x[part], dtype), means(table, table_dtype)[positions], head, neox, offset, inverse))


fused("fused.F16", "F16", 3, 64, 1e-5)
fused("fused.F32", "F32", 2, 48, 1e-6)
for t in "F16", "BF16", "F32":
    silu("silu." + t, t, 3, 40)
silu("silu.far", "F16", 3, 64, scale=6.0)
rotary("rotary.neox", "F32", 4, 16, 4, 2, 16, 1)
rotary("rotary.gptj", "BF16", 4, 16, 4, 2, 16, 0)
rotary("rotary.part_of_head", "F16", 3, 32, 2, 1, 16, 1, offset=8, table_dtype="F32")
rotary("rotary.back", "F32", 3, 16, 3, 0, 8, 0, inverse=1)


# ---- quantisers ------------------------------------------------------------------------------------------------------

E4M3 = numpy.array([(code & 7) * 2.0 ** -9 if code < 8 else (8 + (code & 7)) * 2.0 ** ((code >> 3) - 10) for code in range(127)])


def to_e4m3(x):
    """The nearest of all numbers that there are, of two the even one."""
    near = numpy.abs(numpy.minimum(numpy.abs(x), 448)[..., None] - E4M3)
    best = near.min(-1, keepdims=True)
    even = numpy.where(near <= best * (1 + 1e-12), numpy.arange(127) % 2, 2).argmin(-1)
    return (even | numpy.where(numpy.signbit(x), 0x80, 0)).astype(numpy.uint8)


def quant(layer, symbol, dtype, a, code, outputs, inputs=(), **attrs):
    """outputs: dtype and what is stored, of each part."""
    for part, (of, stored) in enumerate(outputs):
        op("scaled_quant", f"{layer}.{part}", "_C::" + symbol, "none", m=a.shape[0], n=a.shape[1], code=code, **({"part": part} if len(outputs) > 1 else {}),
           **attrs)
        tensor("in", "a", dtype, a)
        for role, kind, x in inputs:
            tensor("in", role, kind, x)
        tensor("out", "c", of, stored)


def int8(r):
    return numpy.clip(numpy.rint(r), -128, 127).astype(numpy.int8)


def f32(x):
    return numpy.asarray(x, dtype=numpy.float32)


a = numbers("F16", 5, 48)
x = means(a, "F16")
most = numpy.abs(x).max(1, keepdims=True)
quant("int8.token", "dynamic_scaled_int8_quant", "F16", a, 1, [("I8", int8(x * 127 / most)), ("F32", f32(most / 127))])
scale = (x.max(1, keepdims=True) - x.min(1, keepdims=True)) / 255
azp = numpy.rint(-128 - x.min(1, keepdims=True) / scale)
quant("int8.azp", "dynamic_scaled_int8_quant", "F16", a, 1,
      [("I8", numpy.clip(numpy.rint(x / scale) + azp, -128, 127).astype(numpy.int8)), ("F32", f32(scale)), ("I32", azp.astype(numpy.int32))], azp=1)
given = f32([0.02])
quant("int8.static", "static_scaled_int8_quant", "F16", a, 1, [("I8", int8(x / float(given[0])))], [("scale", "F32", given)])
quant("int8.static_azp", "static_scaled_int8_quant", "F16", a, 1, [("I8", numpy.clip(numpy.rint(x / float(given[0])) - 11, -128, 127).astype(numpy.int8))],
      [("scale", "F32", given), ("azp", "I32", numpy.array([-11], numpy.int32))])
a = numbers("BF16", 5, 64)
x = means(a, "BF16")
most = numpy.abs(x).max(1, keepdims=True)
quant("fp8.token", "dynamic_per_token_scaled_fp8_quant", "BF16", a, 2, [("F8_E4M3", to_e4m3(x / (most / 448))), ("F32", f32(most / 448))])
low = numpy.minimum(most, 1.5)
quant("fp8.upper", "dynamic_per_token_scaled_fp8_quant", "BF16", a, 2, [("F8_E4M3", to_e4m3(x / (low / 448))), ("F32", f32(low / 448))],
      [("upper", "F32", f32([1.5]))])
quant("fp8.tensor", "dynamic_scaled_fp8_quant", "BF16", a, 2, [("F8_E4M3", to_e4m3(x / (most.max() / 448))), ("F32", f32([most.max() / 448]))], per_tensor=1)
blocks = f32(rng.uniform(0.001, 0.02, (5, 4)))
quant("fp8.blocks", "static_scaled_fp8_quant", "BF16", a, 2, [("F8_E4M3", to_e4m3(x / numpy.repeat(blocks.astype(float), 16, 1)))], [("scale", "F32", blocks)])
ties = ENCODE["F32"](numpy.array([[127.0, 0.5, 1.5, 2.5, -0.5, -1.5, 100.5, 0.0]] * 2))
quant("int8.ties", "dynamic_scaled_int8_quant", "F32", ties, 1,
      [("I8", numpy.array([[127, 0, 2, 2, 0, -2, 100, 0], [127, 1, 1, 3, -1, -1, 101, 0]], numpy.int8)), ("F32", f32([[1.0]] * 2))])
off = numpy.array([[127, 0, 2, 2, 0, -2, 100, 1], [127, 0, 2, 2, 0, -2, 100, 0]], numpy.int8)
quant("int8.off_by_one", "dynamic_scaled_int8_quant", "F32", ties, 1, [("I8", off), ("F32", f32([[1.0]] * 2))])
