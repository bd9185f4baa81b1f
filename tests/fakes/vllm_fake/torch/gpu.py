"""The part of the fake torch that a build for GPUs uses: tensors "on the GPU" lie in this process.
SPDX-License-Identifier: Apache-2.0

The layouts are invented, but for the order of Marlin's scales: an operator undoes what its own repacking
operator did, so that only a plan that calls both rightly is right.

FAKE_CAPABILITY  the GPU's: 90 (default), 86

TD_MISBEHAVE   as in __init__.py; also lost: the GPU is gone after the first call; beside: write past C"""
import os
import types

import numpy
import torch
from torch import AWQ_ORDER, Tensor, beside, cache, empty, groups_to_rows, misbehave, nibbles, product, put


CAPABILITY = int(os.environ.get("FAKE_CAPABILITY", "90"))


def full(shape, value, dtype, device=None):
    return Tensor(numpy.full(shape, value, dtype=dtype))


def zeros(shape, dtype, device=None):
    return empty(shape, dtype)


def arange(n, dtype):
    return Tensor(numpy.arange(n, dtype=dtype))


def equal(a, b):
    return a.x.tobytes() == b.x.tobytes()


def linear(a, w, bias):
    out = empty((a.shape[0], w.shape[0]), a.dtype)
    put(out, product(a.values(), w.values().T, bias), misbehave(a))
    return out


def pad(x, how):
    widths = [(0, 0)] * (x.dim() - len(how) // 2) + [tuple(how[i:i + 2]) for i in range(len(how) - 2, -1, -2)]
    return Tensor(numpy.pad(x.x, widths), x.dtype)


nn = types.SimpleNamespace(functional=types.SimpleNamespace(linear=linear, pad=pad))


class Event:
    """Events are a millisecond apart for each graph between them."""
    replays = 0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.at = Event.replays

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return float(end.at - self.at)


class CUDAGraph:
    def replay(self):
        Event.replays += 1


class graph:
    def __init__(self, g):
        pass

    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


cuda = types.SimpleNamespace(is_available=lambda: torch.GPU == "1", synchronize=lambda: None, get_device_name=lambda i: "fake GPU",
                             get_device_capability=lambda: divmod(CAPABILITY, 10),
                             get_device_properties=lambda i: types.SimpleNamespace(multi_processor_count=4, major=CAPABILITY // 10, minor=CAPABILITY % 10), Event=Event,
                             CUDAGraph=CUDAGraph, graph=graph, empty_cache=lambda: None)


# ---- vLLM's operators ----------------------------------------------------------------------------

def permute_cols(A, perm):
    how = misbehave_on_gpu(A)
    assert A.is_contiguous() and A.shape[1] % 8 == 0 and perm.dtype == "int32" and A.dtype in ("float16", "bfloat16")
    out = empty(A.shape, A.dtype)
    order = perm.x.copy()
    if how == "wrong-permute_cols":
        order = order[::-1] # two columns may be equal by chance
    out.x[...] = A.x[:, order]
    return out


def awq_dequantize(_kernel, _scaling_factors, _zeros, split_k_iters, thx, thy):
    assert split_k_iters == thx == thy == 0 and _scaling_factors.dtype == "float16" and _kernel.shape[0] % 8 == _kernel.shape[1] % 8 == 0
    how, k = misbehave_on_gpu(_scaling_factors), _kernel.shape[0]
    q, zero = nibbles(_kernel.x, AWQ_ORDER).astype(float), groups_to_rows(nibbles(_zeros.x, AWQ_ORDER).astype(float), k)
    out = empty(q.shape, "float16")
    put(out, (q - zero + (how == "wrong-awq_dequantize")) * groups_to_rows(_scaling_factors.values(), k), how)
    return out


def awq_gemm(_in_feats, _kernel, _scaling_factors, _zeros, split_k_iters):
    (k, words), groups = _kernel.shape, _scaling_factors.shape[0]
    assert split_k_iters == 8 and _in_feats.dtype == _scaling_factors.dtype == "float16" and words % 8 == 0 and _in_feats.shape[1] == k
    assert k // groups % 32 == words * 8 % (k // groups) == 0
    q, zero = nibbles(_kernel.x, AWQ_ORDER).astype(float), groups_to_rows(nibbles(_zeros.x, AWQ_ORDER).astype(float), k)
    return result(_in_feats, rounded(_in_feats, (q - zero) * groups_to_rows(_scaling_factors.values(), k)))


def matmul(a, w):
    out = empty((a.shape[0], w.shape[1]), a.dtype)
    put(out, product(a.values(), w.values(), None), misbehave(a))
    return out


U4, U8, U4B8, U8B128 = 4, 8, 48, 8128            # as in the fake vllm/scalar_type.py
BITS, MIDDLE = {U4: 4, U4B8: 4, U8: 8, U8B128: 8}, {U4B8: 8, U8B128: 128}


def unpack(words, bits, axis):
    words = numpy.moveaxis(words.view(numpy.uint32), axis, -1)
    out = numpy.stack([words >> numpy.uint32(bits * i) & numpy.uint32((1 << bits) - 1) for i in range(32 // bits)], -1)
    return numpy.moveaxis(out.reshape(*words.shape[:-1], -1), -1, axis).astype(numpy.float64)


def misbehave_on_gpu(a):
    how = misbehave(a)
    if how == "lost":
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    if how == "margin":
        numpy.lib.stride_tricks.as_strided(a.x, [a.x.size + 1], [a.x.itemsize])[-1] = 1
    return how


def result(a, weight, bias=None):
    how = misbehave_on_gpu(a)
    out = empty((a.shape[0], weight.shape[1]), a.dtype)
    put(out, product(a.values(), weight, bias), how)
    return out


def rounded(a, weight):
    w = empty(weight.shape, a.dtype)
    w.set(weight)
    return w.values()


def machete_prepack_B(B, a_type, b_type, group_scales_type):
    assert not B.is_contiguous() and a_type == group_scales_type and b_type in BITS
    return Tensor(B.x[::-1].copy())


def machete_mm(A, B, b_type, out_type, group_scales, group_zeros, group_size, channel_scales, token_scales, schedule):
    assert out_type is channel_scales is token_scales is schedule is None
    q = unpack(B.x[::-1], BITS[b_type], 0)
    k = q.shape[0]
    assert group_scales.shape[0] == (1 if group_size == -1 else k // group_size)
    zero = groups_to_rows(group_zeros.values(), k) if group_zeros else -MIDDLE[b_type] * groups_to_rows(group_scales.values(), k)
    return result(A, rounded(A, q * groups_to_rows(group_scales.values(), k) + zero))


def gptq_marlin_repack(b_q_weight, perm, size_k, size_n, num_bits, is_a_8bit):
    assert not is_a_8bit and b_q_weight.shape == (size_k * num_bits // 32, size_n)
    assert (size_n % 64 == 0 and size_k % 128 == 0) or (size_n % 128 == 0 and size_k % 64 == 0)
    q = unpack(b_q_weight.x, num_bits, 0)
    q = q[perm.x] if perm.numel() else q
    return Tensor(numpy.ascontiguousarray(q.astype(numpy.int32)))      # not even packed


def undo(order, x):
    return x.reshape(-1, len(order))[:, numpy.argsort(order)].reshape(x.shape)


ONE_GROUP = [2 * i + j for i in range(4) for j in (0, 1, 8, 9, 16, 17, 24, 25)]
MANY_GROUPS = [i + 8 * j for i in range(8) for j in range(8)]


def marlin_gemm(a, c_or_none, b_q_weight, b_bias_or_none, b_scales, a_scales, global_scale, b_zeros_or_none, g_idx_or_none, perm_or_none,
                workspace, b_type_id, size_m, size_n, size_k, is_k_full, use_atomic_add, use_fp32_reduce, is_zp_float):
    assert (size_m, size_k) == a.shape and is_k_full and use_fp32_reduce and not workspace.x.any() and workspace.shape == (4,)
    q, groups, zeros = b_q_weight.x.astype(numpy.float64), b_scales.shape[0], b_zeros_or_none
    scales = undo(MANY_GROUPS if groups > 1 else ONE_GROUP, b_scales.values())
    if zeros.numel():
        order = [0, 2, 4, 6, 1, 3, 5, 7] if BITS[b_type_id] == 4 else [0, 2, 1, 3]
        zero = groups_to_rows(undo(MANY_GROUPS, undo(order, unpack(zeros.x, BITS[b_type_id], 1))), size_k)
    else:
        zero = MIDDLE[b_type_id]
    rows = perm_or_none.x if perm_or_none.numel() else slice(None)
    if perm_or_none.numel():
        assert (g_idx_or_none.x == numpy.arange(size_k) // (size_k // groups)).all()
    bias = Tensor(undo(ONE_GROUP, b_bias_or_none.x), b_bias_or_none.dtype) if b_bias_or_none else None
    weight = (q - zero) * groups_to_rows(scales, size_k)
    back = numpy.empty_like(weight)
    back[rows] = rounded(a, weight) if groups > 1 else weight
    return result(a, back, bias)


def gptq_shuffle(q_weight, q_perm, bit):
    q_weight.x[...] = ~q_weight.x


def gptq_gemm(a, b_q_weight, b_gptq_qzeros, b_gptq_scales, b_g_idx, use_exllama, use_v2_format, bit):
    assert use_exllama
    k, order = a.shape[1], b_g_idx.x if b_g_idx.numel() else numpy.arange(a.shape[1])
    q = unpack(~b_q_weight.x, bit, 0)[order]
    zero = unpack(b_gptq_qzeros.x, bit, 1) + (not use_v2_format)
    weight = numpy.empty_like(q)
    weight[order] = (q - groups_to_rows(zero, k)) * groups_to_rows(b_gptq_scales.values(), k)
    return result(a, rounded(a, weight) if a.shape[0] > (50 if bit == 4 else 24) else weight)


def rearrange_kn_weight_as_n32k16_order(b_qweight, b_scales, b_zeros, has_zp, b_qweight_reorder, b_scales_reorder, b_zeros_reorder, K, N, N_32align):
    assert b_qweight.dtype == "uint8" and b_qweight.shape == (K, N) and b_scales.shape == (1, N) and not has_zp and K % 16 == N % 16 == 0
    assert b_qweight_reorder.shape == (N_32align, K) and b_scales_reorder.shape == (1, N_32align) and N_32align % 32 == 0
    b_qweight_reorder.x[:N] = ~b_qweight.x.T[::-1]
    b_scales_reorder.x[:, :N] = b_scales.x[:, ::-1]


def allspark_w8a16_gemm(a, b_qweight, b_scales, b_qzeros, n, group_size, sm_count, sm_version, CUBLAS_M_THRESHOLD, has_zp, n32k16_reorder):
    assert group_size == -1 and b_qzeros is None and not has_zp and n32k16_reorder and sm_count == 4 and 80 <= sm_version < 90
    assert b_qweight.dtype == "uint8" and b_qweight.shape == (-(-n // 32) * 32, a.shape[1]) and b_scales.dtype == a.dtype and CUBLAS_M_THRESHOLD == 1024
    weight = ((~b_qweight.x[:n][::-1]).astype(numpy.float64) - 128).T * b_scales.values()[:, :n][:, ::-1]
    return result(a, rounded(a, weight))


def per_block(scales, rows, columns):
    return numpy.repeat(numpy.repeat(scales.values(), rows, 0), columns, 1)


def scaled_mm(out, a, b, a_scales, b_scales, bias, taken):
    """The checks of cutlass_scaled_mm in vLLM's csrc, and of dispatch_scaled_mm."""
    (m, k), n = a.shape, b.shape[1]
    assert a.dtype == b.dtype and a.dtype in ("float8_e4m3fn", "int8") and out.dtype in ("float16", "bfloat16")
    assert b.t().is_contiguous() and out.is_contiguous() and k % 16 == n % 16 == 0
    assert a_scales.dtype == b_scales.dtype == "float32" and (bias is None or bias.dtype == out.dtype and bias.shape == (n,))
    how = misbehave_on_gpu(a)
    if a_scales.numel() in (1, m) and b_scales.numel() in (1, n):
        assert a_scales.is_contiguous() and b_scales.is_contiguous()
        values = a.values() @ b.values() - taken
        values = values * a_scales.values().reshape(-1, 1) * b_scales.values().reshape(1, -1)
    else:
        assert a_scales.shape == (m, -(-k // 128)) and b_scales.shape == (-(-k // 128), -(-n // 128)) and bias is None
        assert a_scales.t().is_contiguous() and b_scales.t().is_contiguous()
        values = a.values() * per_block(a_scales, 1, 128)[:, :k] @ (b.values() * per_block(b_scales, 128, 128)[:k, :n])
    put(out, values + (bias.values() if bias is not None else 0), how)
    if how == "beside":
        numpy.lib.stride_tricks.as_strided(out.x, [m * n + 1], [out.x.itemsize])[-1] = 1


def cutlass_scaled_mm(out, a, b, a_scales, b_scales, bias):
    scaled_mm(out, a, b, a_scales, b_scales, bias, 0)


def cutlass_scaled_mm_azp(out, a, b, a_scales, b_scales, azp_adj, azp, bias):
    assert a.dtype == "int8" and azp_adj.dtype == "int32" and azp_adj.numel() == b.shape[1]
    scaled_mm(out, a, b, a_scales, b_scales, bias, azp_adj.values() * (azp.values().reshape(-1, 1) if azp else 1))


def cutlass_moe_mm(out_tensors, a_tensors, b_tensors, a_scales, b_scales, expert_offsets, problem_sizes, a_strides, b_strides, c_strides,
                   per_act_token, per_out_ch):
    """The checks of cutlass_moe_mm in vLLM's csrc; triples of problem_sizes are transposed for few rows (grouped_mm_c3x_sm90.cu)."""
    (m, k), (experts, n, _) = a_tensors.shape, b_tensors.shape
    assert a_tensors.dtype == b_tensors.dtype == "float8_e4m3fn" and out_tensors.dtype in ("float16", "bfloat16") and out_tensors.shape == (m, n)
    assert b_tensors.is_contiguous() and a_tensors.is_contiguous() and k % 16 == n % 16 == 0
    assert expert_offsets.dtype == "int64" and problem_sizes.dtype == "int32" and problem_sizes.shape == (experts, 3)
    assert a_scales.numel() == (m if per_act_token else 1) and b_scales.numel() == experts * (n if per_out_ch else 1)
    assert all(s.dtype == "int64" and (s.x == at).all() and s.shape == (experts,) for s, at in ((a_strides, k), (b_strides, k), (c_strides, n)))
    how, values = misbehave_on_gpu(a_tensors), out_tensors.values()
    for e in range(experts):
        first, triple = int(expert_offsets.x[e]), problem_sizes.x[e]
        rows = slice(first, first + int(triple[1] if m <= 64 else triple[0]))
        scale = a_scales.values().reshape(-1, 1)[rows if per_act_token else slice(None)] * b_scales.values()[e].reshape(1, -1)
        values[rows] = a_tensors.values()[rows] @ b_tensors.values()[e].T * scale
    put(out_tensors, values, how)
    if how == "beside":
        numpy.lib.stride_tricks.as_strided(out_tensors.x, [m * n + 1], [out_tensors.x.itemsize])[-1] = 1


OPERATORS = beside.OPERATORS + [permute_cols, awq_dequantize, awq_gemm, rearrange_kn_weight_as_n32k16_order, allspark_w8a16_gemm, cutlass_moe_mm, cutlass_scaled_mm, cutlass_scaled_mm_azp, machete_prepack_B, machete_mm, gptq_marlin_repack, marlin_gemm, gptq_shuffle, gptq_gemm]


class Argument:
    def __init__(self, name, default=False):
        self.name, self.default = name, default
        self.type = "Optional[Tensor]" if name in ("c_or_none", "a_scales", "global_scale", "bias", "azp", "tw", *beside.OPTIONAL) else "Tensor"

    def has_default_value(self):
        return self.default


# ---- an engineer's own operators (tests/helpers/lib_own_operators.c) -------------------------------


def w4a16_gemm(x, w, s, z, group, fast, eps, b, y):
    assert fast is True and eps == 0.5 and isinstance(eps, float) and group * s.shape[0] == x.shape[1]
    k = x.shape[1]
    weight = (unpack(w.x, 4, 0) - groups_to_rows(unpack(z.x, 4, 1) + 1, k)) * groups_to_rows(s.values(), k)
    put(y, product(x.values(), rounded(x, weight), b), misbehave(x))


def linear_kn(x, weight, y, mode):
    assert mode == "plain" and weight.is_contiguous()
    put(y, product(x.values(), weight.values(), None), misbehave(x))


def fp8_gemm(x, w, sx, sw, z, adj, b):
    """w [k, n], column after column; scales as [m, 1] and [1, n]."""
    assert w.t().is_contiguous() and sx.shape in ((x.shape[0], 1), (1, 1)) and sw.shape in ((1, w.shape[1]), (1, 1))
    out = torch.empty((x.shape[0], w.shape[1]), "bfloat16")
    taken = adj.values() * (z.values().reshape(-1, 1) if z is not None else 1) if adj is not None else 0
    put(out, (x.values() @ w.values() - taken) * sx.values() * sw.values() + (b.values() if b is not None else 0), misbehave(x))
    return out


def experts_gemm(x, w, s, z, ids, owner, count, tw, k, block, mul, y):
    """As w4a16_gemm, for each row of x k times, by the experts that the routing names."""
    assert mul in (0, 1) and w.shape[0] == s.shape[0] == z.shape[0] and y.shape[0] == x.shape[0] * k
    out = y.values()
    for b in range(int(count.x.reshape(-1)[0]) // block):
        e, size = int(owner.x.reshape(-1)[b]), x.shape[1]
        weight = (unpack(w.x[e], 4, 0) - groups_to_rows(unpack(z.x[e], 4, 1) + 1, size)) * groups_to_rows(s.values()[e], size)
        for slot in ids.x.reshape(-1)[b * block:(b + 1) * block]:
            if slot < y.shape[0]:
                out[slot] = x.values()[slot // k] @ rounded(x, weight) * (float(tw.x.reshape(-1)[slot]) if mul else 1)
    put(y, out, misbehave(x))


def load_mine(library):
    for name, op in (("w4a16_gemm", w4a16_gemm), ("linear", linear_kn), ("fp8_gemm", fp8_gemm), ("experts_gemm", experts_gemm)):
        names = op.__code__.co_varnames[:op.__code__.co_argcount]
        schema = types.SimpleNamespace(arguments=[Argument(n, n == "mode") for n in names])
        setattr(library, name, types.SimpleNamespace(default=Call(op, schema)))


def register(library, operators):
    without = os.environ.get("FAKE_WITHOUT", "").split()
    for op in operators:
        if op.__name__ in without:
            continue
        names = list(op.__code__.co_varnames[:op.__code__.co_argcount]) + ["new_argument"] * (os.environ.get("FAKE_LIBRARY") == "changed")
        kernel = types.SimpleNamespace(_schema=types.SimpleNamespace(arguments=[Argument(n, n in beside.DEFAULTS) for n in names]))
        setattr(library, op.__name__, types.SimpleNamespace(default=Call(op, kernel._schema)))


def load(path, ops):
    if os.path.basename(path) == "mine.fake.so":
        torch.ops.mine = types.SimpleNamespace()
        return load_mine(torch.ops.mine)
    if os.path.basename(path) == "broken.fake.so":
        raise OSError("undefined symbol: aoti_torch_no_such")
    assert os.path.basename(path) == "_C_stable_libtorch.fake.so", path
    register(ops._C, OPERATORS)
    register(ops._C_cache_ops, cache.OPERATORS)


class Call:
    def __init__(self, call, schema):
        self.call, self._schema = call, schema

    def __call__(self, **values):
        values = {a.name: beside.DEFAULTS[a.name] for a in self._schema.arguments if a.name in beside.DEFAULTS} | values
        assert set(values) == {a.name for a in self._schema.arguments}, set(values)
        return self.call(**values)
