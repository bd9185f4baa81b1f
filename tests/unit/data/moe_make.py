"""moe_make.py - what numpy says products with the experts of a mixture are: writes moe.bin.

SPDX-License-Identifier: Apache-2.0

Run: /usr/bin/python3 tests/unit/data/moe_make.py     (numpy 1.24.2 made the file that is committed)
The file holds records as ggml_make.py has them: sizes, a, qweight, qzeros, scales, g_idx, bias, sorted_token_ids, expert_ids,
topk_weights, r0, r1, mag. Sizes: m n k bits group act_order experts top_k block_size padded multiply round computed, in
the order below. The answers come from the experts that each token chose, not from the sorted ids: those are made as the
example in vLLM 0.26's moe_align_block_size (vllm/model_executor/layers/fused_moe/moe_align_block_size.py) has them.
A slot of an expert that another rank has is NaN in r0, r1 and mag.
"""
import pathlib
import struct

import numpy as np

rng = np.random.default_rng(20261125)
out = []
BEHIND = 0x7F0000F0                     # what nobody wrote, behind the last block


def record(name, *arrays):
    parts = [np.ascontiguousarray(a).tobytes() for a in arrays]
    out.append(name.encode().ljust(16, b"\0") + struct.pack("<q", len(parts)))
    out.extend(struct.pack("<q", len(p)) + p + b"\0" * (-len(p) % 8) for p in parts)


def bits_of(x, kind):
    """x rounded to nearest even, as the 16 bits of a type."""
    if kind == "f16":
        return x.astype(np.float16).view(np.uint16)
    u = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((u + 0x7FFF + (u >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)).astype(np.uint16)


def value_of(b, kind):
    if kind == "f16":
        return b.view(np.float16).astype(np.float64)
    return (b.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def rounded(x, kind):
    return value_of(bits_of(x, kind), kind)


def pack(values, bits, axis):
    """A word holds 32/bits neighbours along axis, the first in the lowest bits."""
    v = np.moveaxis(values.astype(np.uint32), axis, -1)
    v = v.reshape(*v.shape[:-1], -1, 32 // bits)
    words = (v << (np.arange(32 // bits, dtype=np.uint32) * bits)).sum(axis=-1, dtype=np.uint32)
    return np.moveaxis(words, -1, axis)


def align(choice, experts, block, absent):
    """sorted_token_ids, expert_ids and num_tokens_post_padded of the experts that each slot chose."""
    sorted_ids, expert_ids = [], []
    for e in range(experts):
        slots = np.flatnonzero(choice == e).tolist()
        slots += [choice.size] * (-len(slots) % block)
        sorted_ids += slots
        expert_ids += [-1 if e in absent else e] * (len(slots) // block)
    count = len(sorted_ids)
    sorted_ids += [choice.size] * 5
    expert_ids += [BEHIND] * 2
    return np.array(sorted_ids, np.int32), np.array(expert_ids, np.int32), count


def moe(name, kind, m, n, k, bits, group, act_order, experts, top_k, block, multiply, round_topk, bias, round_weights, absent=()):
    a = bits_of(rng.standard_normal((m, k)), kind)
    q, zero = rng.integers(0, 1 << bits, (experts, k, n)), rng.integers(0, (1 << bits) - 1, (experts, k // group, n))
    scales = bits_of(np.abs(rng.standard_normal((experts, k // group, n))) * 0.02 + 0.001, kind)
    g_idx = np.tile(np.arange(k, dtype=np.int32) // group, (experts, 1))
    if act_order:
        for row in g_idx:
            rng.shuffle(row)
    b = bits_of(rng.standard_normal((experts, n)), kind)
    choice = np.concatenate([rng.permutation(experts)[:top_k] for _ in range(m)])
    sorted_ids, expert_ids, padded = align(choice, experts, block, absent)
    topk = rng.random(m * top_k).astype(np.float32)
    r0, r1, mag = (np.full((m * top_k, n), np.nan) for _ in range(3))
    for slot, e in enumerate(choice):
        if e in absent:
            continue
        x = value_of(a[slot // top_k], kind)
        w0 = (q[e] - (zero[e][g_idx[e]] + 1)) * value_of(scales[e], kind)[g_idx[e]]
        w1 = rounded(w0, kind) if round_weights else w0
        add = value_of(b[e], kind) if bias else np.zeros(n)
        f0 = np.float64(topk[slot]) if multiply else 1.0
        f1 = float(rounded(topk[slot:slot + 1], kind)[0]) if multiply and round_topk else f0
        r0[slot], r1[slot] = (x @ w0 + add) * f0, (x @ w1 + add) * f1
        mag[slot] = (np.abs(x) @ np.abs(w1) + np.abs(add)) * f1
    sizes = [m, n, k, bits, group, act_order, experts, top_k, block, padded, multiply, round_topk, len(absent)]
    record(name, np.array(sizes, np.int64), a, pack(q, bits, 1), pack(zero, bits, 2), scales, g_idx, b, sorted_ids, expert_ids, topk, r0, r1, mag)


moe("moe f16", "f16", 5, 16, 64, 4, 32, 0, 4, 2, 8, 0, 0, 0, 1)
moe("moe bf16 mul", "bf16", 22, 24, 64, 4, 64, 0, 3, 1, 16, 1, 1, 1, 1, absent=(1,))
moe("moe f16 8 act", "f16", 3, 12, 96, 8, 32, 1, 5, 3, 4, 1, 0, 0, 0)
pathlib.Path(__file__).with_name("moe.bin").write_bytes(b"".join(out))
