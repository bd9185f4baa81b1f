"""moe_scaled_make.py - what numpy and ml_dtypes say products of 8-bit floats with the experts of a mixture are: writes moe_scaled.bin.

SPDX-License-Identifier: Apache-2.0

Run: python3 tests/unit/data/moe_scaled_make.py     (numpy 2.4.6 and ml_dtypes 0.6.0 made the file that is committed)
The file holds records as ggml_make.py has them: sizes (m n k experts), a, w, a_scales, w_scales, expert_offsets, problem_sizes,
r, mag. The answers come from the expert that each row has, not from offsets and sizes: those are made as vLLM 0.26's
get_cutlass_moe_mm_problem_sizes_from_expert_offsets has them (csrc/libtorch_stable/quantization/w8a8/cutlass/moe/moe_data.cu),
whose triples are transposed with swap_ab. A row that no expert has is NaN in r and mag."""
import pathlib
import struct

import ml_dtypes
import numpy as np

rng = np.random.default_rng(20261126)
out = []
E4M3, E5M2, F32 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, np.float32


def record(name, *arrays):
    parts = [np.ascontiguousarray(a).tobytes() for a in arrays]
    out.append(name.encode().ljust(16, b"\0") + struct.pack("<q", len(parts)))
    out.extend(struct.pack("<q", len(p)) + p + b"\0" * (-len(p) % 8) for p in parts)


def moe(name, rows, n, k, a_type, per_token, per_channel, swap_ab, spare=0):
    """rows: how many each expert has; spare: rows behind them that none has."""
    experts, m = len(rows), sum(rows) + spare
    a, w = (rng.standard_normal((m, k)) * 4).astype(a_type), (rng.standard_normal((experts, n, k)) * 4).astype(E4M3)
    sa = rng.uniform(0.001, 0.1, m if per_token else 1).astype(F32)
    sw = rng.uniform(0.001, 0.1, (experts, n) if per_channel else (experts, 1)).astype(F32)
    offsets = np.concatenate([[0], np.cumsum(rows)[:-1]]).astype(np.int64)
    sizes = np.array([[n, r, k] if swap_ab else [r, n, k] for r in rows], np.int32)
    r, mag = np.full((m, n), np.nan), np.full((m, n), np.nan)
    owner = np.repeat(np.arange(experts), rows)
    for i, e in enumerate(owner):
        scale = np.float64(sa[i if per_token else 0]) * sw[e].astype(np.float64)
        x, y = a[i].astype(np.float64), w[e].astype(np.float64)
        r[i], mag[i] = (y @ x) * scale, (np.abs(y) @ np.abs(x)) * scale
    record(name, np.array([m, n, k, experts], np.int64), a, w, sa, sw, offsets, sizes, r, mag)


moe("token", [3, 0, 2, 6], 16, 48, E4M3, True, True, False)
moe("tensor", [1, 4, 0], 24, 40, E4M3, False, False, False, spare=3)
moe("swapped", [2, 16, 5], 16, 33, E5M2, True, False, True)
pathlib.Path(__file__).with_name("moe_scaled.bin").write_bytes(b"".join(out))
