"""raw_ops.py - describe ops with numpy tensors for the program tests/helpers/raw_ops, which writes a fixture.

Tensors are written into the working folder, the description to stdout. Outputs computed here are computed in
double and rounded once. BF16 values are held as uint16. SPDX-License-Identifier: Apache-2.0"""
import numpy


def from_bf16(h):
    return (h.astype(numpy.uint32) << numpy.uint32(16)).view(numpy.float32)


def to_bf16(x):
    u = numpy.ascontiguousarray(x, dtype=numpy.float32).view(numpy.uint32)
    return ((u + 0x7FFF + (u >> 16 & 1)) >> 16).astype(numpy.uint16)


def from_e4m3(x):
    exponent, sign = (x >> 3 & 15).astype(int), 1 - 2.0 * (x >> 7)
    values = sign * numpy.where(exponent, numpy.ldexp(8.0 + (x & 7), exponent - 10), numpy.ldexp(1.0 * (x & 7), -9))
    return numpy.where(x & 127 == 127, numpy.nan, values)


ENCODE = {"BF16": to_bf16, "F16": lambda x: x.astype(numpy.float16), "F32": lambda x: x.astype(numpy.float32), "I32": lambda x: x, "I64": lambda x: x}
DECODE = {"BF16": from_bf16, "F16": lambda x: x, "F32": lambda x: x, "F8_E4M3": from_e4m3, "I8": lambda x: x, "I32": lambda x: x}


def means(h, dtype):
    """Stored numbers as float64."""
    return DECODE[dtype](h).astype(numpy.float64)


def rounded(x, dtype):
    return means(ENCODE[dtype](x), dtype)


files = 0


def tensor(where, role, dtype, x, ld=0):
    """x: as stored. ld: elements from one row to the next; the gaps hold NaN. 0: dense."""
    global files
    if x.ndim == 3:
        x.tofile(f"tensor-{files}")
        print(where, role, dtype, "x".join(map(str, x.shape)), 0, f"tensor-{files}")
        files += 1
        return
    rows, cols = x.shape if x.ndim == 2 else (x.shape[0], 0)
    if ld:
        wide = ENCODE[dtype](numpy.full((rows, ld), numpy.nan))
        wide[:, :cols] = x
        x = wide.reshape(-1)[:(rows - 1) * ld + cols]
    x.tofile(f"tensor-{files}")
    print(where, role, dtype, f"{rows}x{cols}", ld, f"tensor-{files}")
    files += 1


def op(kind, layer, symbol, rounding, **attrs):
    print("op 0", kind, layer, symbol, rounding)
    for name, value in attrs.items():
        print("attr", name, value)


def gemm(layer, dtype, a, w, bias=None, ld=0, symbol="onednn_mm"):
    """a [m, k], w [n, k], bias [n]: as stored."""
    op("gemm", layer, symbol, "none", m=a.shape[0], n=w.shape[0], k=w.shape[1], trans_b=1)
    tensor("in", "a", dtype, a, ld)
    tensor("in", "w", dtype, w)
    out = means(a, dtype) @ means(w, dtype).T
    if bias is not None:
        tensor("in", "bias", dtype, bias)
        out = out + means(bias, dtype)
    tensor("out", "c", dtype, ENCODE[dtype](out))


def unpack(words, axis, bits=4):
    """The values of so many bits in each word along axis, the lowest first."""
    x = numpy.moveaxis(words.view(numpy.uint32), axis, -1)[..., None] >> numpy.arange(0, 32, bits, dtype=numpy.uint32) & (1 << bits) - 1
    return numpy.moveaxis(x.reshape(*x.shape[:-2], -1), -1, axis)


def pack(x, axis, bits=4):
    x = numpy.moveaxis(x.astype(numpy.uint32), axis, -1)
    words = (x.reshape(*x.shape[:-1], -1, 32 // bits) << numpy.arange(0, 32, bits, dtype=numpy.uint32)).sum(-1).astype(numpy.uint32)
    return numpy.moveaxis(words, -1, axis).copy().view(numpy.int32)


def gptq(layer, dtype, a, qweight, qzeros, scales, group, bias=None, g_idx=None, ld=0, bits=4, zero_offset=1, symbol="cpu_gemm_wna16",
         rounding=None):
    """Tensors as in a GPTQ checkpoint; zero points are stored minus zero_offset. rounding: of the weights; None: to
    dtype, "none": they are exact; "zero-f16": zero points come scaled, as Machete's."""
    n, k = scales.shape[1], a.shape[1]
    rounding = rounding or "weight-" + dtype.lower()
    groups = numpy.arange(k) // group if g_idx is None else g_idx
    q, zero, scale = unpack(qweight, 0, bits).astype(float), unpack(qzeros, 1, bits).astype(float) + zero_offset, means(scales, dtype)
    weight = (q - zero[groups]) * scale[groups]
    if rounding.startswith("zero-"):
        weight = q * scale[groups] + rounded(-zero * scale, dtype)[groups]
    op("gptq_gemm", layer, symbol, rounding, m=a.shape[0], n=n, k=k, bits=bits, group_size=group, zero_offset=zero_offset,
       act_order=int(g_idx is not None))
    tensor("in", "a", dtype, a, ld)
    tensor("in", "qweight", "I32", qweight)
    tensor("in", "qzeros", "I32", qzeros)
    tensor("in", "scales", dtype, scales)
    if g_idx is not None:
        tensor("in", "g_idx", "I32", g_idx.astype(numpy.int32))
    out = means(a, dtype) @ (weight if rounding == "none" else rounded(weight, dtype))
    if bias is not None:
        tensor("in", "bias", dtype, bias)
        out = out + means(bias, dtype)
    tensor("out", "c", dtype, ENCODE[dtype](out))


def spread(scales, rows, columns, block):
    """One scale for each element of [rows, columns]. scales: [1], [rows], or per block as a matrix; block: its rows."""
    if scales.ndim == 2:
        return numpy.repeat(numpy.repeat(scales, block, 0), 128, 1)[:rows, :columns]
    return scales.reshape(-1, 1)


def scaled_mm(layer, dtype, out, a, w, a_scales, w_scales, bias=None, azp_adj=None, azp=None, symbol="_C::cutlass_scaled_mm"):
    """a [m, k], w [n, k]: as stored; scales: [1], one for each row, or per block of 128 [m, k / 128], [n / 128, k / 128]."""
    blocks = {"block": 128} if a_scales.ndim == 2 else {}
    op("scaled_mm", layer, symbol, "none", m=a.shape[0], n=w.shape[0], k=a.shape[1], **blocks)
    tensor("in", "a", dtype, a)
    tensor("in", "w", dtype, w)
    tensor("in", "a_scales", "F32", numpy.ascontiguousarray(a_scales.T))
    tensor("in", "w_scales", "F32", w_scales)
    x, y = means(a, dtype), means(w, dtype)
    if not blocks:
        c = x @ y.T
        for role, z in ("azp_adj", azp_adj), ("azp", azp):
            if z is not None:
                tensor("in", role, "I32", z)
        if azp_adj is not None:
            c = c - azp_adj * (azp[:, None] if azp is not None else 1.0)
        c = c * spread(a_scales, *x.shape, 1) * spread(w_scales, *y.shape, 1).T
    else:
        c = (x * spread(a_scales, *x.shape, 1)) @ (y * spread(w_scales, *y.shape, 128)).T
    if bias is not None:
        tensor("in", "bias", out, bias)
        c = c + means(bias, out)
    tensor("out", "c", out, ENCODE[out](c))


def moe_scaled(layer, out, a, w, a_scales, w_scales, rows, transposed=None, symbol="_C::cutlass_moe_mm"):
    """a [m, k] sorted by expert, w [e, n, k]: F8_E4M3 as stored; w_scales [e] or [e, n]; rows: how many each expert has; what is
    left of a has none. transposed: the triples of problem_sizes; None: as vLLM does."""
    (m, k), (experts, n, _) = a.shape, w.shape
    op("moe_scaled_mm", layer, symbol, "none", m=m, n=n, k=k, experts=experts)
    tensor("in", "a", "F8_E4M3", a)
    tensor("in", "w", "F8_E4M3", w)
    tensor("in", "a_scales", "F32", a_scales)
    tensor("in", "w_scales", "F32", w_scales)
    tensor("in", "expert_offsets", "I64", numpy.concatenate([[0], numpy.cumsum(rows)[:-1]]).astype(numpy.int64))
    swap = m <= 64 if transposed is None else transposed
    tensor("in", "problem_sizes", "I32", numpy.array([[n, r, k] if swap else [r, n, k] for r in rows], numpy.int32))
    c = numpy.full((m, n), numpy.nan)
    for i, e in enumerate(numpy.repeat(numpy.arange(experts), rows)):
        c[i] = means(w, "F8_E4M3")[e] @ means(a, "F8_E4M3")[i] * a_scales.astype(float)[i % len(a_scales)] * w_scales.astype(float)[e]
    tensor("out", "c", out, ENCODE[out](c))


def route(choice, experts, block, absent=()):
    """sorted_token_ids, expert_ids and num_tokens_post_padded, of the expert that each slot chose."""
    sorted_ids, expert_ids = [], []
    for e in range(experts):
        slots = numpy.flatnonzero(choice == e).tolist()
        slots += [choice.size] * (-len(slots) % block)
        sorted_ids += slots
        expert_ids += [-1 if e in absent else e] * (len(slots) // block)
    padded = len(sorted_ids)
    return (numpy.array(sorted_ids + [choice.size] * block, numpy.int32), numpy.array(expert_ids + [0x7F00] * 2, numpy.int32), numpy.array([padded], numpy.int32))


def moe(layer, dtype, a, q, zero, scales, group, choice, weights, block, bias=None, g_idx=None, bits=4, zero_offset=1, multiply=False, absent=(),
        symbol="_moe_C::moe_wna16_marlin_gemm", rounding=None, round_topk=True):
    """A product with experts: q [e, k, n] and true zero points [e, groups, n] as numbers; choice: the expert of each slot;
    weights: of the slots, or None."""
    experts, k, n = q.shape
    rounding = rounding or "weight-" + dtype.lower()
    op("moe_gemm", layer, symbol, rounding, m=a.shape[0], n=n, k=k, experts=experts, top_k=len(choice) // len(a), block_size=block,
       mul_topk_weights=int(multiply), round_topk_weights=int(round_topk), bits=bits, group_size=group, zero_offset=zero_offset, act_order=int(g_idx is not None))
    tensor("in", "a", dtype, a)
    for role, x in zip(("sorted_token_ids", "expert_ids", "num_tokens_post_padded"), route(choice, experts, block, absent)):
        tensor("in", role, "I32", x)
    if weights is not None:
        tensor("in", "topk_weights", "F32", weights)
    tensor("in", "qweight", "I32", pack(q, 1, bits))
    tensor("in", "qzeros", "I32", pack(zero - zero_offset, 2, bits))
    tensor("in", "scales", dtype, scales)
    if g_idx is not None:
        tensor("in", "g_idx", "I32", g_idx.astype(numpy.int32))
    if bias is not None:
        tensor("in", "bias", dtype, bias)
    out = numpy.full((len(choice), n), numpy.nan)
    for slot, e in enumerate(choice):
        if e in absent:
            continue
        groups = numpy.arange(k) // group if g_idx is None else g_idx[e]
        weight = (q[e] - zero[e][groups].astype(float)) * means(scales, dtype)[e][groups]
        row = means(a, dtype)[slot * len(a) // len(choice)] @ (weight if rounding == "none" else rounded(weight, dtype))
        row = row + (means(bias, dtype)[e] if bias is not None else 0)
        out[slot] = row * ((rounded(weights[slot:slot + 1], dtype)[0] if round_topk else weights[slot].astype(float)) if multiply else 1)
    tensor("out", "c", dtype, ENCODE[dtype](out))
