# compress.py - bodies that are compressed for the wire, in parts as servers flush them: by Python's zlib, and by
# libbrotlienc and libzstd themselves.
# SPDX-License-Identifier: Apache-2.0
"""
    c = Compressor("gzip")
    parts = [c.part(b"data: a"), c.part(b"data: b"), c.end()]
"""
import ctypes
import zlib

ROOM = 1 << 22


class Zlib:
    FLUSH, END = zlib.Z_SYNC_FLUSH, zlib.Z_FINISH

    def __init__(self, window):
        self.z = zlib.compressobj(9, zlib.DEFLATED, window)

    def run(self, data, op):
        return self.z.compress(data) + self.z.flush(op)


class Brotli:
    FLUSH, END = 1, 2

    def __init__(self):
        self.lib = ctypes.CDLL("libbrotlienc.so.1")
        self.lib.BrotliEncoderCreateInstance.restype = ctypes.c_void_p
        self.state = ctypes.c_void_p(self.lib.BrotliEncoderCreateInstance(None, None, None))
        self.lib.BrotliEncoderSetParameter(self.state, 1, 5)  # BROTLI_PARAM_QUALITY

    def run(self, data, op):
        out, n_in, n_out = ctypes.create_string_buffer(ROOM), ctypes.c_size_t(len(data)), ctypes.c_size_t(ROOM)
        next_in, next_out = ctypes.c_char_p(data), ctypes.cast(out, ctypes.c_void_p)
        assert self.lib.BrotliEncoderCompressStream(self.state, op, ctypes.byref(n_in), ctypes.byref(next_in), ctypes.byref(n_out),
                                                    ctypes.byref(next_out), None)
        assert n_out.value and not n_in.value
        return out.raw[:ROOM - n_out.value]


class ZstdBuffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("at", ctypes.c_size_t)]


class Zstd:
    FLUSH, END = 1, 2

    def __init__(self, window_log=None):
        self.lib = ctypes.CDLL("libzstd.so.1")
        self.lib.ZSTD_createCCtx.restype = ctypes.c_void_p
        self.lib.ZSTD_compressStream2.restype = ctypes.c_size_t
        self.c = ctypes.c_void_p(self.lib.ZSTD_createCCtx())
        if window_log:
            self.lib.ZSTD_CCtx_setParameter(self.c, 101, window_log)  # ZSTD_c_windowLog

    def run(self, data, op):
        room = ctypes.create_string_buffer(ROOM)
        out = ZstdBuffer(ctypes.cast(room, ctypes.c_void_p), ROOM, 0)
        given = ZstdBuffer(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data), 0)
        while True:
            left = self.lib.ZSTD_compressStream2(self.c, ctypes.byref(out), ctypes.byref(given), op)
            assert left < ROOM, "zstd failed"
            if not left and given.at == len(data):
                return room.raw[:out.at]


class Compressor:
    MAKERS = {"gzip": lambda: Zlib(31), "deflate": lambda: Zlib(15), "bare deflate": lambda: Zlib(-15), "br": Brotli, "zstd": Zstd,
              "wide zstd": lambda: Zstd(27)}

    def __init__(self, coding):
        self.maker = self.MAKERS[coding]()

    def part(self, data):
        """Data, flushed: the other side can read all of it."""
        return self.maker.run(data, self.maker.FLUSH)

    def end(self, data=b""):
        return self.maker.run(data, self.maker.END)


def compressed(coding, data):
    return Compressor(coding).end(data)
