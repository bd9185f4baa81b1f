"""vLLM's operators that write into a cache of keys and values, in numpy.
SPDX-License-Identifier: Apache-2.0

TD_MISBEHAVE   as in beside.py; of wrong-NAME: wrong-slot: rows go into the slot behind theirs; lost-row: the last row is not
               written; wrong: the last number of each row is the one before it"""
import os

import numpy
from torch import beside


def to_e5m2(x):
    """To nearest even, and the largest one in place of what is larger."""
    most = numpy.minimum(numpy.abs(x), 57344)
    exponent = numpy.maximum(numpy.frexp(most)[1] - 1, -14)
    code = (exponent + 14) * 4 + numpy.rint(numpy.ldexp(most, 2 - exponent)).astype(int)
    return numpy.where(numpy.isnan(x), 0x7F, code | numpy.signbit(x) * 0x80)


def stored(x, dtype, scale):
    """What goes into the cache for x [rows, heads, head] or [rows, n]: its own bits, or codes."""
    if dtype in ("auto", "float16", "bfloat16"):
        return x.x
    codes = {"fp8": beside.to_e4m3, "fp8_e4m3": beside.to_e4m3, "fp8_e5m2": to_e5m2}[dtype]
    each = beside.f32(scale.values())
    return codes((beside.f32(x.values()) / (each if each.size == 1 else each.reshape(1, -1, 1))).astype(float)).astype(numpy.uint8)


def check(x, cache, dtype, slots):
    assert slots.dtype == "int64" and x.shape[0] >= slots.shape[0] and slots.is_contiguous()
    assert cache.dtype == (x.dtype if dtype in ("auto", "float16", "bfloat16") else "uint8"), (cache.dtype, dtype)


def write(name, slots, block, rows, put):
    """put(row of the list, block, place in it, what is stored) for each row that has a slot."""
    how = os.environ.get("TD_MISBEHAVE", "")
    last = max((i for i, slot in enumerate(slots.x) if slot >= 0), default=-1)
    for i, slot in enumerate(int(s) for s in slots.x):
        if slot < 0 or (how == "lost-row" and i == last):
            continue
        what = rows[i].copy()
        if how == "wrong-" + name:
            what[..., -1] = what[..., -2]
        slot = slot + 1 - block * (slot % block == block - 1) if how == "wrong-slot" else slot
        put(slot // block, slot % block, what)


def reshape_and_cache_flash(key, value, key_cache, value_cache, slot_mapping, kv_cache_dtype, k_scale, v_scale):
    """Caches [blocks, block, heads, head], whose heads may lie apart."""
    assert k_scale.shape == v_scale.shape and k_scale.numel() in (1, key.shape[1]) and key_cache.x.strides[0] == value_cache.x.strides[0]
    for x, cache, scale in (key, key_cache, k_scale), (value, value_cache, v_scale):
        check(x, cache, kv_cache_dtype, slot_mapping)
        assert cache.shape[2:] == x.shape[1:]
        write("reshape_and_cache_flash", slot_mapping, cache.shape[1], stored(x, kv_cache_dtype, scale), lambda b, at, row: cache.x.__setitem__((b, at), row))


def reshape_and_cache(key, value, key_cache, value_cache, slot_mapping, kv_cache_dtype, k_scale, v_scale):
    """Keys as [blocks, heads, head / x, block, x], values as [blocks, heads, head, block]."""
    block, x = key_cache.shape[3], key_cache.shape[4]
    assert key_cache.is_contiguous() and value_cache.is_contiguous() and k_scale.numel() == v_scale.numel() == 1
    check(key, key_cache, kv_cache_dtype, slot_mapping)
    check(value, value_cache, kv_cache_dtype, slot_mapping)
    heads, head = key.shape[1:]
    write("reshape_and_cache", slot_mapping, block, stored(key, kv_cache_dtype, k_scale),
          lambda b, at, row: key_cache.x[b].__setitem__((slice(None), slice(None), at), row.reshape(heads, head // x, x)))
    write("reshape_and_cache", slot_mapping, block, stored(value, kv_cache_dtype, v_scale),
          lambda b, at, row: value_cache.x[b].__setitem__((slice(None), slice(None), at), row))


def concat_and_cache_mla(kv_c, k_pe, kv_cache, slot_mapping, kv_cache_dtype, scale):
    check(kv_c, kv_cache, kv_cache_dtype, slot_mapping)
    assert scale.numel() == 1 and kv_cache.shape[2] == kv_c.shape[1] + k_pe.shape[1] and k_pe.dtype == kv_c.dtype
    rows = numpy.concatenate([stored(kv_c, kv_cache_dtype, scale), stored(k_pe, kv_cache_dtype, scale)], 1)
    write("concat_and_cache_mla", slot_mapping, kv_cache.shape[1], rows, lambda b, at, row: kv_cache.x.__setitem__((b, at), row))


OPERATORS = [reshape_and_cache, reshape_and_cache_flash, concat_and_cache_mla]
