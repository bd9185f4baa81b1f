"""gemm_make.py - what torch says products of BF16 activations are, plain and with what vLLM's CPU kernels round: writes gemm.bin.

SPDX-License-Identifier: Apache-2.0

Run: python3 tests/unit/data/gemm_make.py     (torch 2.13.0 and numpy made the file that is committed)
The file holds records as ggml_make.py has them. GPTQ: sizes, a, qweight, qzeros, scales, g_idx, bias, r0, r1, mag; plain: sizes, a,
w, bias, r, mag. W is made of plain integers first and packed by numpy. Where what is from:
  uint8  int4_scaled_mm_cpu: quantize_row_int8 (csrc/cpu/sgl-kernels/vec.h), in torch's float32: torch.round takes ties to even
  wbf16  cpu_gemm_wna16: Dequantizer4b (csrc/cpu/cpu_wna16.cpp) stores the dequantised weight as BF16
"""
import pathlib
import struct

import numpy as np
import torch

rng = np.random.default_rng(20260712)
out = []


def record(name, *arrays):
    parts = [a.contiguous().view(torch.uint8).numpy().tobytes() if isinstance(a, torch.Tensor) else np.ascontiguousarray(a).tobytes() for a in arrays]
    out.append(name.encode().ljust(16, b"\0") + struct.pack("<q", len(parts)))
    out.extend(struct.pack("<q", len(p)) + p + b"\0" * (-len(p) % 8) for p in parts)


def normal(*shape):
    return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))


def pack(values, bits, axis):
    """values : [R, C] integers; a word holds 32/bits neighbours along axis, the first in the lowest bits."""
    v = np.moveaxis(values.astype(np.uint32), axis, -1)
    v = v.reshape(*v.shape[:-1], -1, 32 // bits)
    words = (v << (np.arange(32 // bits, dtype=np.uint32) * bits)).sum(axis=-1, dtype=np.uint32)
    return np.moveaxis(words, -1, axis)


def gptq(name, m, n, k, bits, group, act_order, scale_type, bias_type, rounding):
    a = (normal(m, k) * torch.from_numpy(rng.exponential(1, (m, 1)).astype(np.float32))).to(torch.bfloat16)
    a[0, :9] = torch.tensor([127, 0.5, 1.5, 2.5, -0.5, -1.5, 63.5, -126.5, 0.25])  # ties, when this is the largest
    a[0, 9:] = a[0, 9:].clamp(-100, 100)
    q, zero = rng.integers(0, 1 << bits, (k, n)), rng.integers(0, (1 << bits) - 1, (k // group, n))
    scales = (torch.abs(normal(k // group, n)) * 0.02 + 0.001).to(scale_type)
    g_idx = np.arange(k, dtype=np.int32) // group
    if act_order:
        rng.shuffle(g_idx)
    w0 = torch.from_numpy(q - (zero[g_idx] + 1)).double() * scales.double()[torch.from_numpy(g_idx).long()]
    bias = normal(n).to(bias_type)
    a0 = a.double()
    a1, w1 = a0, w0
    if rounding == "uint8-token":
        amax = a.float().abs().amax(dim=1, keepdim=True).clamp(min=1e-7)
        inverse = torch.tensor(127, dtype=torch.float32) / amax
        a1 = torch.round(a.float() * inverse).double() * (amax / 127).double()
    else:
        w1 = w0.float().to(torch.bfloat16).double()
    b = bias.double()
    record(name, np.array([m, n, k, bits, group, act_order], np.int64), a, pack(q, bits, 0), pack(zero, bits, 1), scales, g_idx, bias,
           a0 @ w0 + b, a1 @ w1 + b, a1.abs() @ w1.abs() + b.abs())


def plain(name, m, n, k, kind, bias_type):
    a, w, bias = normal(m, k).to(kind), (normal(n, k) * 0.05).to(kind), normal(n).to(bias_type)
    record(name, np.array([m, n, k], np.int64), a, w, bias, a.double() @ w.double().T + bias.double(),
           a.double().abs() @ w.double().abs().T + bias.double().abs())


gptq("uint8 4", 3, 16, 64, 4, 32, 0, torch.bfloat16, torch.float32, "uint8-token")
gptq("uint8 8 act", 2, 12, 96, 8, 32, 1, torch.float16, torch.bfloat16, "uint8-token")
gptq("wbf16 4", 3, 24, 64, 4, 64, 0, torch.bfloat16, torch.bfloat16, "weight-bf16")
gptq("wbf16 4 f32", 1, 8, 128, 4, 64, 1, torch.float32, torch.float32, "weight-bf16")
plain("plain BF16", 3, 7, 75, torch.bfloat16, torch.bfloat16)
plain("plain F16", 2, 9, 40, torch.float16, torch.float32)
plain("plain F32", 4, 3, 33, torch.float32, torch.float32)
pathlib.Path(__file__).with_name("gemm.bin").write_bytes(b"".join(out))
