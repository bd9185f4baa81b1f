"""scaled_make.py - what numpy and ml_dtypes say products of 8-bit numbers and their scales are: writes scaled.bin.

SPDX-License-Identifier: Apache-2.0

Run: python3 tests/unit/data/scaled_make.py     (numpy 2.4.6 and ml_dtypes 0.6.0 made the file that is committed)
The file holds records as ggml_make.py has them. "e4m3", "e5m2": the values of all 256 bytes, as float32. Products: sizes (m n k
block), a, w, a_scales, w_scales, bias, azp_adj, azp (the last three may be empty), r, mag, r in float32 steps as vLLM's epilogues
take them (csrc/quantization/w8a8/cutlass/Epilogues.md). Scales per block lie as the op has them: a's by block of k, then row."""
import pathlib
import struct

import ml_dtypes
import numpy as np

rng = np.random.default_rng(20261125)
out = []
E4M3, E5M2, F32, NONE = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.float32, np.zeros(0, np.float32)


def record(name, *arrays):
    parts = [np.ascontiguousarray(a).tobytes() for a in arrays]
    out.append(name.encode().ljust(16, b"\0") + struct.pack("<q", len(parts)))
    out.extend(struct.pack("<q", len(p)) + p + b"\0" * (-len(p) % 8) for p in parts)


def spread(scales, block, shape):
    """One scale for each element: the rule of cutlass_scaled_mm in vllm/_custom_ops.py."""
    if block:
        scales = np.repeat(np.repeat(scales, block[0], 0), block[1], 1)[:shape[0], :shape[1]]
    return np.broadcast_to(scales, shape).astype(np.float64)


def floats(name, m, n, k, a_type, w_type, per_row, per_column, block=0, bias=False):
    a, w = (rng.standard_normal((m, k)) * 4).astype(a_type), (rng.standard_normal((n, k)) * 4).astype(w_type)
    kb, nb = -(-k // block) if block else 0, -(-n // block) if block else 0
    sa = rng.uniform(0.001, 0.1, (m, kb) if block else (m if per_row else 1, 1)).astype(F32)
    sw = rng.uniform(0.001, 0.1, (nb, kb) if block else (n if per_column else 1, 1)).astype(F32)
    x = a.astype(np.float64) * spread(sa, (1, block) if block else None, a.shape)
    y = w.astype(np.float64) * spread(sw, (block, block) if block else None, w.shape)
    b = rng.standard_normal(n).astype(F32) if bias else NONE
    r, mag = x @ y.T, np.abs(x) @ np.abs(y).T
    steps = (sa * (sw.T * (a.astype(F32) @ w.astype(F32).T))).astype(F32) if not block else r.astype(F32)
    if bias:
        r, mag, steps = r + b, mag + np.abs(b), steps + b
    record(name, np.array([m, n, k, block], np.int64), a, w, sa.T if block else sa, sw, b, NONE, NONE, r, mag, steps)


def integers(name, m, n, k, zero, bias=False):
    """zero: None, "tensor" (multiplied into azp_adj, static) or "token"."""
    a, w = rng.integers(-128, 128, (m, k)).astype(np.int8), rng.integers(-127, 128, (n, k)).astype(np.int8)
    sa, sw = rng.uniform(0.001, 0.1, (m, 1)).astype(F32), rng.uniform(0.001, 0.1, (n, 1)).astype(F32)
    azp = rng.integers(-128, 128, m).astype(np.int32) if zero == "token" else NONE
    adj = w.astype(np.int32).sum(axis=1, dtype=np.int32) if zero else NONE
    adj = (adj * 17).astype(np.int32) if zero == "tensor" else adj
    real = (a.astype(np.int64) - (azp[:, None] if zero == "token" else 17 if zero else 0)) @ w.astype(np.int64).T   # what it stands for
    scale = sa.astype(np.float64) * sw.T.astype(np.float64)
    b = rng.standard_normal(n).astype(F32) if bias else NONE
    r = real * scale + (b if bias else 0)
    mag = np.abs(real) * scale + (np.abs(b) if bias else 0)
    steps = (sa * (sw.T * real.astype(F32))).astype(F32) + (b if bias else F32(0))
    record(name, np.array([m, n, k, 0], np.int64), a, w, sa, sw, b, adj, azp, r, mag, steps)


every = np.arange(256, dtype=np.uint8)
record("e4m3", every.view(E4M3).astype(F32))
record("e5m2", every.view(E5M2).astype(F32))
floats("tensor", 3, 5, 48, E4M3, E4M3, False, False)
floats("token", 5, 7, 96, E4M3, E4M3, True, True, bias=True)
floats("e5m2 a", 2, 9, 33, E5M2, E4M3, True, False)
floats("block", 3, 256, 256, E4M3, E4M3, False, False, block=128)
floats("block odd", 5, 130, 200, E4M3, E4M3, False, False, block=128)
integers("int8", 4, 6, 160, None)
integers("int8 bias", 1, 8, 64, None, bias=True)
integers("azp tensor", 3, 5, 200, "tensor")
integers("azp token", 4, 7, 128, "token", bias=True)
pathlib.Path(__file__).with_name("scaled.bin").write_bytes(b"".join(out))
