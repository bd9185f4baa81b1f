"""A fake of torch and of vLLM's ops, in numpy: the part of both that torch_build.py, torch_cpu_ops.py
and torch_gpu_ops.py of kernels/providers use.
SPDX-License-Identifier: Apache-2.0

Cases 046, 047 and 048 run the child of provider torch on it. The ops compute in double and round
once.

FAKE_GPU       1: a torch and a vLLM for GPUs (gpu.py); none: the same, and no GPU is found
FAKE_CPU       avx2, avx512 (default) or amx: the CPU that torch.cpu reports; it decides which ops
               exist
FAKE_LIBRARY   broken: vLLM's library cannot be loaded; gpu: it has no CPU ops; changed: an op has
               one more argument
TD_MISBEHAVE   raise, abort, hang; skip: leave the last column alone; scribble: write into a; past:
               write past c; flaky, nan; "+m" at the end of a word: only for more than one row"""
import itertools
import os
import time
import types

import numpy

__version__ = "0.0-fake"
float32, float16, bfloat16 = "float32", "float16", "bfloat16"
int32, int64, uint8, int8 = "int32", "int64", "uint8", "int8"
float8_e4m3fn, float8_e5m2 = "float8_e4m3fn", "float8_e5m2"
STORED_AS = {bfloat16: "uint16", float8_e4m3fn: "uint8", float8_e5m2: "uint8"}
GPU = os.environ.get("FAKE_GPU", "")
CPU = os.environ.get("FAKE_CPU", "avx512")
threads = os.cpu_count()


def get_num_threads():
    return threads


def set_num_threads(n):
    global threads
    threads = n


def from_bf16(x):
    return (x.astype(numpy.uint32) << numpy.uint32(16)).view(numpy.float32)


def to_bf16(x):
    u = numpy.ascontiguousarray(x, dtype=numpy.float32).view(numpy.uint32)
    rounded = ((u + 0x7FFF + (u >> 16 & 1)) >> 16).astype(numpy.uint16)
    return numpy.where(numpy.isnan(x), numpy.uint16(0x7FC0), rounded)


def from_e4m3(x):
    exponent, sign = (x >> 3 & 15).astype(int), 1 - 2.0 * (x >> 7)
    values = sign * numpy.where(exponent, numpy.ldexp(8.0 + (x & 7), exponent - 10), numpy.ldexp(1.0 * (x & 7), -9))
    return numpy.where(x & 127 == 127, numpy.nan, values)


class Tensor:
    def __init__(self, x, dtype=None):
        self.x, self.dtype = x, dtype or str(x.dtype)
        self.shape = x.shape

    def as_strided(self, shape, strides):
        step = self.x.itemsize
        return Tensor(numpy.lib.stride_tricks.as_strided(self.x, shape, [s * step for s in strides]), self.dtype)

    def is_contiguous(self):
        return self.x.flags.c_contiguous

    def contiguous(self):
        return Tensor(numpy.ascontiguousarray(self.x), self.dtype)

    def __len__(self):
        return len(self.x)

    def dim(self):
        return self.x.ndim

    def numel(self):
        return self.x.size

    def element_size(self):
        return self.x.itemsize

    def data_ptr(self):
        return self.x.__array_interface__["data"][0]

    def numpy(self):
        return self.x

    def cuda(self):
        return self.clone()

    def cpu(self):
        return self

    def clone(self):
        return Tensor(self.x.copy(), self.dtype)

    def view(self, *how):
        if isinstance(how[0], str):
            return Tensor(self.x.view(STORED_AS.get(how[0], how[0])), how[0])
        return self.reshape(*how)

    def reshape(self, *shape):
        return Tensor(self.x.reshape(*shape), self.dtype)

    def __getitem__(self, where):
        where = tuple(w.x if isinstance(w, Tensor) else w for w in where) if isinstance(where, tuple) else where
        return Tensor(self.x[where], self.dtype)

    def __mul__(self, other):
        out = empty(self.shape, self.dtype)
        out.set(self.values() * (other.values() if isinstance(other, Tensor) else other))
        return out

    __rmul__ = __mul__

    def __floordiv__(self, n):
        return Tensor(self.x // n)

    def add_(self, other):
        self.set(self.values() + other.values())
        return self

    def zero_(self):
        self.x[...] = 0

    def repeat(self, *times):
        return Tensor(numpy.tile(self.x, times), self.dtype)

    def t(self):
        return Tensor(self.x.T, self.dtype)

    def transpose(self, a, b):
        return Tensor(numpy.swapaxes(self.x, a, b), self.dtype)

    def item(self):
        return self.x.item()

    def values(self):
        read = {bfloat16: from_bf16, float8_e4m3fn: from_e4m3}.get(self.dtype, lambda x: x)
        return read(self.x).astype(numpy.float64)

    def set(self, values, where=slice(None)):
        new = to_bf16(values) if self.dtype == bfloat16 else values.astype(self.x.dtype)
        self.x[..., where] = new[..., where]

    def to(self, dtype):
        if dtype == self.dtype:
            return self
        out = empty(self.shape, dtype)
        out.set(self.values())
        return out

    def copy_(self, other):
        if self.dtype == other.dtype:
            self.x[...] = other.x
        else:
            self.set(other.values())


def empty(shape, dtype, device=None):
    return Tensor(numpy.zeros(shape, dtype=STORED_AS.get(dtype, dtype)), dtype)


def frombuffer(buffer, dtype):
    return Tensor(numpy.frombuffer(buffer, dtype=STORED_AS.get(dtype, dtype)), dtype)


def from_numpy(x):
    return Tensor(x)


def stack(tensors):
    return Tensor(numpy.stack([t.x for t in tensors]), tensors[0].dtype)


def tensor(value, dtype):
    return Tensor(numpy.array(value, dtype=dtype), dtype)


# ---- what a kernel does besides its work ---------------------------------------------------------

calls = itertools.count()


def misbehave(a):
    how, _, only = os.environ.get("TD_MISBEHAVE", "").partition("+")
    if only and a.shape[0] < 2:
        return ""
    if how == "raise":
        raise RuntimeError("CHECK_EQ(a_k_size % 32, 0) failed. 0 vs 1\nException raised from a fake")
    if how == "abort":
        os.abort()
    while how == "hang":
        time.sleep(1)
    if how == "scribble":
        a.x.view(numpy.uint8)[0, 0] ^= 1
    return how


def put(c, values, how):
    if how == "nan":
        values = values * numpy.nan
    if how == "flaky":
        values = values * (1 + next(calls) % 2 / 64)
    if how == "past":
        numpy.lib.stride_tricks.as_strided(c.x, [c.shape[0] * c.shape[1] + 1], [c.x.itemsize])[-1] = 1
    c.set(values, slice(None, -1) if how == "skip" else slice(None))


# ---- vLLM's ops ----------------------------------------------------------------------------------

AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)     # where the columns of eight lie among a word's nibbles, in AWQ's layout


def nibbles(words, order):
    words = words.view(numpy.uint32)
    return numpy.stack([words >> numpy.uint32(4 * i) & numpy.uint32(15) for i in order], -1).reshape(words.shape[0], -1)


def groups_to_rows(x, k):
    return numpy.repeat(x, k // x.shape[0], axis=0)


def product(a, w, bias):
    return a @ w + (bias.values() if bias is not None else 0)


def convert_weight_packed_scale_zp(qweight, qzeros, scales, quant_method_4bit):
    assert quant_method_4bit == 0
    return Tensor(nibbles(qweight.x, AWQ_ORDER)), Tensor(nibbles(qzeros.x, AWQ_ORDER)), scales.to(float32)


def int4_scaled_mm_cpu(x, w, w_zeros, w_scales, bias):
    assert bias is None or bias.dtype == float32
    how, k = misbehave(x), w.shape[0]
    a = x.values().astype(numpy.float32)
    top = numpy.maximum(numpy.abs(a).max(axis=1, keepdims=True), numpy.float32(1e-7))
    rounded = numpy.rint(a * (numpy.float32(127) / top)) * (top / numpy.float32(127))
    weight = (w.x.astype(numpy.float64) - groups_to_rows(w_zeros.x.astype(numpy.float64), k)) * groups_to_rows(w_scales.values(), k)
    out = empty((x.shape[0], weight.shape[1]), x.dtype)
    put(out, product(rounded.astype(numpy.float64), weight, bias), how)
    return out


def cpu_gemm_wna16(input, q_weight, output, scales, zeros, bias, pack_factor, isa_hint):
    assert zeros is None and pack_factor == 8 and isa_hint == ("amx" if CPU == "amx" and input.dtype == bfloat16 else "vec")
    assert scales.dtype == input.dtype == output.dtype and (bias is None or bias.dtype == input.dtype)
    how, k, n = misbehave(input), input.shape[1], scales.shape[1]
    q = nibbles(q_weight.x.reshape(n // 16 * k, 2), range(8)).reshape(n // 16, k, 16).transpose(1, 0, 2).reshape(k, n)
    weight = empty((k, n), input.dtype)
    weight.set((q.astype(numpy.float64) - 8) * groups_to_rows(scales.values(), k))
    put(output, product(input.values(), weight.values(), bias), how)


handlers, next_handler = {}, itertools.count(1)


def create_onednn_mm_handler(b, primitive_cache_size):
    handlers[number := next(next_handler)] = b.values()
    return number


def onednn_mm(c, a, bias, handler_tensor):
    put(c, product(a.values(), handlers[handler_tensor.item()], bias), misbehave(a))


def release_dnnl_matmul_handler(handler):
    del handlers[handler]


def convert_weight_packed(weight):
    return Tensor(weight.values().T)


def weight_packed_linear(out, mat1, mat2, bias, is_vnni):
    assert is_vnni and (bias is None or bias.dtype == float32)
    put(out, product(mat1.values(), mat2.x, bias), misbehave(mat1))


OPS = {"onednn_mm": 4, "create_onednn_mm_handler": 2, "release_dnnl_matmul_handler": 1}
if CPU != "avx2":
    OPS["cpu_gemm_wna16"] = 8
if CPU == "amx":
    OPS.update(int4_scaled_mm_cpu=5, convert_weight_packed_scale_zp=4, convert_weight_packed=1, weight_packed_linear=5)


class Library:
    """torch.ops._C, once the library is loaded."""


class Kernel:
    def __init__(self, call, n_args):
        self.call, self._schema = call, types.SimpleNamespace(arguments=[None] * n_args)

    def __call__(self, *args):
        assert len(args) == len(self._schema.arguments)
        return self.call(*args)


def load_library(path):
    how = os.environ.get("FAKE_LIBRARY", "")
    want = {"avx2": "_C_AVX2.fake.so", "avx512": "_C_AVX512.fake.so", "amx": "_C.fake.so"}[CPU]
    if how == "broken":
        raise OSError("undefined symbol: _ZN2at4_ops5emptyE")
    assert os.path.basename(path) == want, path
    for name, n in {} if how == "gpu" else OPS.items():
        setattr(ops._C, name, types.SimpleNamespace(default=Kernel(globals()[name], n + (how == "changed"))))


def load_gpu_library(path):
    import torch.gpu

    if "_moe_C" in path:
        import torch.moe

        torch.moe.load(path, ops._moe_C)
    else:
        torch.gpu.load(path, ops)


ops = types.SimpleNamespace(_C=Library(), _C_cache_ops=Library(), _moe_C=Library(), load_library=load_gpu_library if GPU else load_library)
cpu = types.SimpleNamespace(_is_avx512_supported=lambda: CPU != "avx2", _is_avx512_bf16_supported=lambda: CPU == "amx",
                            _is_amx_tile_supported=lambda: CPU == "amx", _is_amx_fp16_supported=lambda: False)
version = types.SimpleNamespace(cuda="13.0" if GPU else None, hip=None)
if GPU:
    from torch.gpu import arange, cuda, equal, full, matmul, nn, zeros  # noqa: F401
backends = types.SimpleNamespace(cpu=types.SimpleNamespace(get_cpu_capability=lambda: "AVX2" if CPU == "avx2" else "AVX512"))
