"""vLLM's operators beside products, in numpy: they compute in double and round once.
SPDX-License-Identifier: Apache-2.0

TD_MISBEHAVE   as in gpu.py; wrong-NAME: that operator computes something else"""
import os

import numpy
from torch import misbehave, put


def start(name, a):
    """What is done wrong in this call."""
    how = misbehave(a)
    if how == "margin":
        numpy.lib.stride_tricks.as_strided(a.x, [a.x.size + 1], [a.x.itemsize])[-1] = 1
    return "wrong" if os.environ.get("TD_MISBEHAVE") in ("half", "wrong-" + name) else how


def write(out, values, how):
    put(out, values, how)
    if how == "beside":
        numpy.lib.stride_tricks.as_strided(out.x, [out.x.size + 1], [out.x.itemsize])[-1] = 1


def norm(x, weight, epsilon, how):
    squares = (x * x)[:, :x.shape[1] // 2] if how == "wrong" else x * x    # half of the row is left out
    factor = 1 / numpy.sqrt(squares.sum(1, keepdims=True) / x.shape[1] + epsilon)
    return x * factor * (weight.values() if weight is not None else 1)


def rms_norm(result, input, weight, epsilon):
    assert result.is_contiguous() and result.dtype == input.dtype and result.shape == input.shape and isinstance(epsilon, float)
    assert weight is None or weight.dtype == input.dtype and weight.shape == (input.shape[1],)
    how = start("rms_norm", input)
    write(result, norm(input.values(), weight, epsilon, how), how)


def fused_add_rms_norm(input, residual, weight, epsilon):
    assert input.dtype == residual.dtype and residual.is_contiguous() and input.shape == residual.shape
    how = start("fused_add_rms_norm", residual)
    put(residual, input.values() + residual.values(), "")
    write(input, norm(residual.values(), weight, epsilon, how), how)


def silu_and_mul(result, input):
    n = result.shape[1]
    assert input.shape == (result.shape[0], 2 * n) and input.dtype == result.dtype
    how, x = start("silu_and_mul", input), input.values()
    gate, up = x[:, :n], x[:, n:]
    write(result, gate / (1 + numpy.exp(-gate)) * (gate if how == "wrong" else up), how)


def turned(x, positions, head_size, cos_sin_cache, is_neox, offset, inverse):
    table, heads = cos_sin_cache.values()[positions.x], x.values().reshape(x.shape[0], -1, head_size)
    half = table.shape[1] // 2
    cos, sin = table[:, None, :half], table[:, None, half:] * (-1 if inverse else 1)
    p = offset + (numpy.arange(half) if is_neox else 2 * numpy.arange(half))
    q = p + (half if is_neox else 1)
    out, a, b = heads.copy(), heads[..., p], heads[..., q]
    out[..., p], out[..., q] = a * cos - b * sin, b * cos + a * sin
    return out.reshape(x.shape)


def rotary_embedding(positions, query, key, head_size, cos_sin_cache, is_neox, rope_dim_offset, inverse):
    assert positions.dtype == "int64" and positions.shape == (query.shape[0],) and query.shape[1] % head_size == 0
    how = start("rotary_embedding", cos_sin_cache)
    how_is = (not is_neox) if how == "wrong" else is_neox
    for x in (query, key):
        if x is not None:
            write(x, turned(x, positions, head_size, cos_sin_cache, how_is, rope_dim_offset, inverse), how)


def to_e4m3(x):
    most = numpy.minimum(numpy.abs(x), 448)
    exponent = numpy.maximum(numpy.frexp(most)[1] - 1, -6)
    code = (exponent + 6) * 8 + numpy.rint(numpy.ldexp(most, 3 - exponent)).astype(int)
    return numpy.where(numpy.isnan(x), 0x7F, code | numpy.signbit(x) * 0x80)


def f32(x):
    return numpy.asarray(x, dtype=numpy.float32)


def codes(result, x, scale, azp, how):
    """In float32, by the inverse of the scale, as kernels do it. wrong: every code is one more."""
    with numpy.errstate(divide="ignore", invalid="ignore"):
        r = numpy.where(x == 0, f32(0), f32(x) * (f32(1) / f32(scale)))
    if result.dtype == "int8":
        write(result, numpy.clip(numpy.rint(r) + azp + (how == "wrong"), -128, 127), how)
    else:
        write(result, to_e4m3(r.astype(float)) + (how == "wrong"), how)


def dynamic_scaled_int8_quant(result, input, scale, azp):
    assert scale.dtype == "float32" and scale.numel() == input.shape[0] and result.shape == input.shape
    how, x = start("dynamic_scaled_int8_quant", input), input.values()
    if azp is None:
        scale.set((f32(numpy.abs(x).max(1, keepdims=True)) / f32(127)).reshape(scale.shape))
        return codes(result, x, scale.values().reshape(-1, 1), 0, how)
    scale.set((f32(x.max(1, keepdims=True) - x.min(1, keepdims=True)) / f32(255)).reshape(scale.shape))
    azp.set(numpy.rint(f32(-128) - f32(x.min(1, keepdims=True)) / f32(scale.values().reshape(-1, 1))).reshape(azp.shape))
    codes(result, x, scale.values().reshape(-1, 1), azp.values().reshape(-1, 1), how)


def static_scaled_int8_quant(result, input, scale, azp):
    assert scale.numel() == 1 and (azp is None or azp.numel() == 1)
    codes(result, input.values(), scale.values(), azp.values() if azp is not None else 0, start("static_scaled_int8_quant", input))


def dynamic_scaled_fp8_quant(result, input, scale):
    how, x = start("dynamic_scaled_fp8_quant", input), input.values()
    scale.set(f32(numpy.abs(x).max(keepdims=True)).reshape(scale.shape) / f32(448))
    codes(result, x, scale.values(), 0, how)


def dynamic_per_token_scaled_fp8_quant(result, input, scale, scale_ub):
    how, x = start("dynamic_per_token_scaled_fp8_quant", input), input.values()
    most = numpy.abs(x).max(1, keepdims=True)
    most = numpy.minimum(most, scale_ub.values()) if scale_ub is not None else most
    scale.set(numpy.maximum(f32(most) / f32(448), f32(1 / (448 * 512))).reshape(scale.shape))
    codes(result, x, scale.values().reshape(-1, 1), 0, how)


def static_scaled_fp8_quant(result, input, scale, group_shape):
    how, x, s = start("static_scaled_fp8_quant", input), input.values(), scale.values()
    assert group_shape is None and (s.size == 1 or s.ndim == 2)
    if s.size > 1:
        s = numpy.repeat(numpy.repeat(s, x.shape[0] // s.shape[0], 0), x.shape[1] // s.shape[1], 1)
    codes(result, x, s, 0, how)


OPERATORS = [rms_norm, fused_add_rms_norm, silu_and_mul, rotary_embedding, dynamic_scaled_int8_quant, static_scaled_int8_quant,
             dynamic_scaled_fp8_quant, dynamic_per_token_scaled_fp8_quant, static_scaled_fp8_quant]
DEFAULTS = {"rope_dim_offset": 0, "inverse": False, "group_shape": None}
OPTIONAL = ["weight", "key", "azp", "scale_ub", "group_shape"]
