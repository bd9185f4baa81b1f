"""ggml_make.py - what gguf-py and llama.cpp say about block formats and their products: writes ggml.bin, for test_ggml_blocks.c and others.

SPDX-License-Identifier: Apache-2.0

Run: python3 tests/unit/data/ggml_make.py FOLDER     (FOLDER: libggml-base.so and libggml-cpu.so of a build with AVX2)
Made with gguf 0.19.0, numpy 2.4.6 and the ggml 0.26.0 of llama.cpp (CMake defaults for x86-64 with AVX2 and FMA, one thread).
The file holds records: name (16 bytes), the number of arrays (8), for each its bytes (8) and the bytes themselves, filled to 8.
"""
import ctypes
import pathlib
import struct
import sys

import gguf
import numpy as np

TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q2_K": 10, "Q3_K": 11, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14, "BF16": 30}
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
rng = np.random.default_rng(20260711)
out = []
folder = pathlib.Path(sys.argv[1])
base = ctypes.CDLL(str(folder / "libggml-base.so"), mode=ctypes.RTLD_GLOBAL)
cpu = ctypes.CDLL(str(folder / "libggml-cpu.so"))
vp, i64 = ctypes.c_void_p, ctypes.c_int64


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", vp), ("no_alloc", ctypes.c_bool)]


for lib, name, result, args in [
    (base, "ggml_init", vp, [InitParams]), (base, "ggml_free", None, [vp]), (base, "ggml_get_data", vp, [vp]),
    (base, "ggml_new_tensor_4d", vp, [vp, ctypes.c_int, i64, i64, i64, i64]), (base, "ggml_mul_mat", vp, [vp, vp, vp]),
    (base, "ggml_view_2d", vp, [vp, vp, i64, i64, ctypes.c_size_t, ctypes.c_size_t]), (base, "ggml_new_graph", vp, [vp]),
    (base, "ggml_build_forward_expand", None, [vp, vp]), (cpu, "ggml_graph_compute_with_ctx", ctypes.c_int, [vp, vp, ctypes.c_int]),
    (base, "ggml_quantize_chunk", ctypes.c_size_t, [ctypes.c_int, vp, vp, i64, i64, i64, vp]), (cpu, "ggml_cpu_init", None, []),
]:
    f = getattr(lib, name)
    f.restype, f.argtypes = result, args
cpu.ggml_cpu_init()


def record(name, *arrays):
    parts = [np.ascontiguousarray(a).tobytes() for a in arrays]
    out.append(name.encode().ljust(16, b"\0") + struct.pack("<q", len(parts)))
    out.extend(struct.pack("<q", len(p)) + p + b"\0" * (-len(p) % 8) for p in parts)


def row_size(kind, k):
    if kind in ("F32", "F16", "BF16"):
        return k * (4 if kind == "F32" else 2)
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    return k // block * size


def deq(kind):
    """Random blocks, their scales between 0.5 and 2 in size: what gguf-py makes of them, and what the library does."""
    rows = 2
    b = rng.integers(0, 256, (rows, row_size(kind, 256)), dtype=np.uint8)
    size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]][1]
    for at in HALVES[kind]:
        for first in range(at, b.shape[1], size):
            b[:, first + 1] = rng.choice([0x38, 0x3C, 0xB8, 0xBC], rows)
    w = gguf.quants.dequantize(b, gguf.GGMLQuantizationType[kind]).astype(np.float32)
    lib = np.zeros_like(w)
    getattr(base, "dequantize_row_q" + kind[1:])(b.ctypes.data_as(vp), lib.ctypes.data_as(vp), i64(w.size))
    assert np.allclose(w, lib, rtol=3e-7, atol=1e-6), kind
    record("deq " + kind, b, lib)


def activations():
    """Rows of 256: plain, small and large, ties, zeros, one outlier, half-way values, subnormal halves, tiny floats."""
    x = rng.standard_normal((10, 256)).astype(np.float32)
    x[1] *= 1e-6
    x[2] *= 1e4
    x[3] = (rng.integers(-254, 255, 256) / 2).astype(np.float32)
    x[3, ::32] = 127  # so that d is 1 and x.5 is a tie
    x[4] = 0
    x[4, 70] = -3
    x[5] *= rng.exponential(1, 256).astype(np.float32) ** 4
    x[6] = rng.standard_normal(256) * 1e-41
    x[7] *= 3e38 / 8
    x[8] = np.round(x[8] * 8) / 8
    x[8, ::16] = -127
    x[9] = np.float32(1) + rng.integers(0, 65536, 256).astype(np.float32) * np.float32(2**-20)  # ties of f16 and bf16
    record("activations", x)
    for name, size, per in (("q8_0", 34, 32), ("q8_1", 36, 32), ("q8_K", 292, 256)):
        q = np.zeros((10, 256 // per * size), np.uint8)
        for i in range(10):
            getattr(cpu, "quantize_row_" + name)(x[i].ctypes.data_as(vp), q[i].ctypes.data_as(vp), i64(256))
        record("act " + name, q)
    for name, f in (("f16", cpu.ggml_cpu_fp32_to_fp16), ("bf16", cpu.ggml_cpu_fp32_to_bf16)):
        h = np.zeros((10, 256), np.uint16)
        f(x.ctypes.data_as(vp), h.ctypes.data_as(vp), i64(x.size))
        record("act " + name, h)


def weights(kind, rows, k):
    w = (rng.standard_normal((rows, k)) * 0.05 + 0.01).astype(np.float32)
    if kind == "F32":
        return w.view(np.uint8)
    if kind == "F16":
        return w.astype(np.float16).view(np.uint8)
    if kind == "BF16":
        return (w.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    b = np.zeros((rows, row_size(kind, k)), np.uint8)
    assert base.ggml_quantize_chunk(TYPES[kind], w.ctypes.data_as(vp), b.ctypes.data_as(vp), 0, rows, k, None) == b.size
    return b


def mul_mat(kind, m, n, k, b2=1, b3=1, w2=1, w3=1, stride=1):
    """stride: rows of W that lie apart, as in a view."""
    ctx = base.ggml_init(InitParams(16 << 20, None, False))
    w = weights(kind, w3 * w2 * n * stride, k)
    a = rng.standard_normal((b3, b2, m, k)).astype(np.float32)
    tw = base.ggml_new_tensor_4d(ctx, TYPES[kind], k, n * stride, w2, w3)
    ta = base.ggml_new_tensor_4d(ctx, TYPES["F32"], k, m, b2, b3)
    ctypes.memmove(base.ggml_get_data(tw), w.ctypes.data, w.size)
    ctypes.memmove(base.ggml_get_data(ta), a.ctypes.data, a.nbytes)
    if stride > 1:
        tw = base.ggml_view_2d(ctx, tw, k, n, row_size(kind, k) * stride, 0)
    tc = base.ggml_mul_mat(ctx, tw, ta)
    graph = base.ggml_new_graph(ctx)
    base.ggml_build_forward_expand(graph, tc)
    assert cpu.ggml_graph_compute_with_ctx(ctx, graph, 1) == 0
    c = np.ctypeslib.as_array(ctypes.cast(base.ggml_get_data(tc), ctypes.POINTER(ctypes.c_float)), (b3, b2, m, n)).copy()
    base.ggml_free(ctx)
    record("mul_mat " + kind, np.array([m, n, k, b2, b3, w2, w3, stride], np.int64), w, a, c)


for kind in HALVES:
    deq(kind)
activations()
for kind in TYPES:
    for m, n in ((1, 5), (3, 3)):
        mul_mat(kind, m, n, 256 if kind.endswith("_K") else 128 + 32 * m)
mul_mat("F16", 2, 3, 64, b2=6, b3=2, w2=3, w3=1)
mul_mat("F16", 2, 3, 64, stride=3)
mul_mat("Q8_0", 2, 3, 64, b2=4, w2=2)
mul_mat("Q4_1", 2, 3, 96, stride=2)
pathlib.Path(__file__).with_name("ggml.bin").write_bytes(b"".join(out))
