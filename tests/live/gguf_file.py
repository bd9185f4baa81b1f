"""gguf_file.py - read a GGUF file, version 2 or 3: metadata with the bytes it stands in, tensors by
name.

Format: docs/gguf.md of github.com/ggml-org/ggml. Plain Python; only dequantise() needs numpy.
SPDX-License-Identifier: Apache-2.0
"""
import struct
import sys

MAGIC = 0x46554747
FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
F32, F16, Q4_1, Q8_0 = 0, 1, 3, 8


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, fmt):
        v = struct.unpack_from("<" + fmt, self.data, self.at)
        self.at += struct.calcsize("<" + fmt)
        return v[0] if len(v) == 1 else v

    def string(self):
        n = self.take("Q")
        self.at += n
        return bytes(self.data[self.at - n:self.at])

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            inner, n = self.take("I"), self.take("Q")
            return [self.value(inner) for _ in range(n)]
        return self.take(FIXED[kind])


class Tensor:
    """name; dims, innermost first; type; offset from the start of the data; data: its bytes and what pads them."""


class File:
    """fields: {key: (value, its bytes in the file)}; tensors: [Tensor]; alignment; data, of all tensors."""

    def __init__(self, path):
        with open(path, "rb") as f:
            raw = memoryview(f.read())
        r = Reader(raw)
        magic, version, n_tensors, n_fields = r.take("IIQQ")
        if magic != MAGIC or version not in (2, 3):
            sys.exit(f"{path}: not a GGUF file of version 2 or 3")
        self.fields = {}
        for _ in range(n_fields):
            start = r.at
            key, kind = r.string().decode(), r.take("I")
            value = r.value(kind)
            self.fields[key] = (value, raw[start:r.at])
        self.alignment = self.get("general.alignment", 32)
        self.tensors = [self._tensor(r) for _ in range(n_tensors)]
        base = -(-r.at // self.alignment) * self.alignment
        ends = sorted(t.offset for t in self.tensors)[1:] + [len(raw) - base]
        for t, end in zip(sorted(self.tensors, key=lambda t: t.offset), ends):
            t.data = raw[base + t.offset:base + end]

    @staticmethod
    def _tensor(r):
        t = Tensor()
        t.name, n = r.string().decode(), r.take("I")
        t.dims = [r.take("Q") for _ in range(n)]
        t.type, t.offset = r.take("I"), r.take("Q")
        return t

    def get(self, key, default=None):
        """A value by its key, with or without the name of the architecture in front; strings as text."""
        for k in (key, "llama." + key):
            if k in self.fields:
                v = self.fields[k][0]
                return v.decode() if isinstance(v, bytes) else v
        return default


def string(s):
    return struct.pack("<Q", len(s)) + s


def dequantise(t):
    """float32, outermost dimension first. Q4_1: blocks of d, m (half), 16 bytes: w = d*q + m, low nibbles are the first 16 of 32;
    Q8_0: d, 32 int8: w = d*q."""
    import numpy as np
    shape = t.dims[::-1]
    n = int(np.prod(shape))
    if t.type in (F32, F16):
        return np.frombuffer(t.data, np.float32 if t.type == F32 else np.float16, n).astype(np.float32).reshape(shape)
    if t.type == Q8_0:
        b = np.frombuffer(t.data, np.dtype([("d", "<f2"), ("q", "i1", 32)]), n // 32)
        w = b["q"] * b["d"].astype(np.float32)[:, None]
    elif t.type == Q4_1:
        b = np.frombuffer(t.data, np.dtype([("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)]), n // 32)
        q = np.concatenate([b["q"] & 15, b["q"] >> 4], axis=1)
        w = q * b["d"].astype(np.float32)[:, None] + b["m"].astype(np.float32)[:, None]
    else:
        sys.exit(f"{t.name}: tensors of type {t.type} are not read here")
    return w.astype(np.float32).reshape(shape)
