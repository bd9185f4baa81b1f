"""The part of the fake torch that multiplies with experts: what vLLM's _moe_C library has.
SPDX-License-Identifier: Apache-2.0

The layout is what gpu.py's gptq_marlin_repack makes, expert by expert. FAKE_MOE=none: the library has no operators."""
import os
import types

import numpy
from torch import Tensor, groups_to_rows, misbehave, put
from torch.gpu import BITS, MANY_GROUPS, MIDDLE, ONE_GROUP, Argument, Call, rounded, undo, unpack


def weights_of(a, e, b_q_weight, b_scales, zeros, g_idx, perm, type_id):
    q, k, groups = b_q_weight.x[e].astype(numpy.float64), b_q_weight.shape[1], b_scales.shape[1]
    scales = undo(MANY_GROUPS if groups > 1 else ONE_GROUP, b_scales.values()[e])
    zero = MIDDLE.get(type_id)
    if zeros is not None:
        zero = groups_to_rows(undo(MANY_GROUPS, undo([0, 2, 4, 6, 1, 3, 5, 7], unpack(zeros.x[e], BITS[type_id], 1))), k)
    weight = (q - zero) * groups_to_rows(scales, k)
    back, rows = numpy.empty_like(weight), perm.x[e] if perm.numel() else slice(None)
    if perm.numel():
        assert (g_idx.x[e] == numpy.arange(k) // (k // groups)).all()
    back[rows] = rounded(a, weight) if groups > 1 else weight
    return back


def moe_wna16_marlin_gemm(a, c_or_none, b_q_weight, b_bias_or_none, b_scales, a_scales, global_scale, b_zeros_or_none, g_idx_or_none, perm_or_none,
                          workspace, sorted_token_ids, expert_ids, num_tokens_past_padded, topk_weights, moe_block_size, top_k, mul_topk_weights,
                          b_type_id, size_m, size_n, size_k, is_full_k, use_atomic_add, use_fp32_reduce, is_zp_float, thread_k, thread_n, blocks_per_sm):
    assert (size_m, size_k) == a.shape and c_or_none.shape == (size_m * top_k, size_n) and is_full_k and use_fp32_reduce
    assert workspace.shape == (16,) and not workspace.x.any() and mul_topk_weights in (True, False)
    how, c = misbehave(a), c_or_none.values()
    for b in range(int(num_tokens_past_padded.x[0]) // moe_block_size):
        e = int(expert_ids.x[b])
        if e == -1:
            continue
        w = weights_of(a, e, b_q_weight, b_scales, b_zeros_or_none, g_idx_or_none, perm_or_none, b_type_id)
        for slot in sorted_token_ids.x[b * moe_block_size:(b + 1) * moe_block_size]:
            if slot < size_m * top_k:
                row = a.values()[slot // top_k] @ w
                if b_bias_or_none is not None:
                    row = row + undo(ONE_GROUP, b_bias_or_none.values()[e])
                factor = rounded(a, topk_weights.x.reshape(-1)[slot:slot + 1].astype(numpy.float64))[0] if mul_topk_weights else 1
                c[slot] = row * factor
    put(c_or_none, c, how)
    return c_or_none


def moe_wna16_gemm(input, output, b_qweight, b_scales, b_qzeros, topk_weights, sorted_token_ids, expert_ids, num_tokens_post_pad,
                   top_k, BLOCK_SIZE_M, BLOCK_SIZE_N, BLOCK_SIZE_K, bit):
    m, k = input.shape
    n, group = b_qweight.shape[1], k // b_scales.shape[2]
    assert b_qweight.dtype == "uint8" and k % BLOCK_SIZE_K == 0 and BLOCK_SIZE_K // group in (1, 2, 4, 8) and BLOCK_SIZE_K % group == 0
    assert BLOCK_SIZE_M <= 64 and BLOCK_SIZE_N in (128, 256, 1024) and output.shape == (m * top_k, n) and b_scales.dtype == input.dtype

    def numbers(x, axis):
        each = numpy.stack([x >> bit * i & (1 << bit) - 1 for i in range(8 // bit)], axis + 1)
        return each.reshape(x.shape[:axis] + (-1,) + x.shape[axis + 1:]).astype(numpy.float64)

    how, c = misbehave(input), numpy.zeros(output.shape)
    for b in range(int(num_tokens_post_pad.x[0]) // BLOCK_SIZE_M):
        e = int(expert_ids.x[b])
        if e == -1:
            continue
        zero = 1 << bit - 1 if b_qzeros is None else numpy.repeat(numbers(b_qzeros.x[e], 0), group, 1)
        w = rounded(input, (numbers(b_qweight.x[e], 1) - zero) * numpy.repeat(b_scales.values()[e], group, 1))
        for slot in sorted_token_ids.x[b * BLOCK_SIZE_M:(b + 1) * BLOCK_SIZE_M]:
            if slot < m * top_k:
                c[slot] = w @ input.values()[slot // top_k] * (1 if topk_weights is None else topk_weights.x.reshape(-1)[slot].astype(numpy.float64))
    put(output, c, how)
    return output


def load(path, library):
    assert os.path.basename(path) == "_moe_C_stable_libtorch.fake.so", path
    if os.environ.get("FAKE_MOE") == "none":
        return
    for op in moe_wna16_marlin_gemm, moe_wna16_gemm:
        schema = types.SimpleNamespace(arguments=[Argument(n) for n in op.__code__.co_varnames[:op.__code__.co_argcount]])
        setattr(library, op.__name__, types.SimpleNamespace(default=Call(op, schema)))
