#!/usr/bin/env python3
"""make.py - fixtures by somebody who means harm: a few kilobytes that stand for gigabytes, sizes that
overflow, names that are paths.

SPDX-License-Identifier: Apache-2.0
usage: make.py GOLDEN OUT MIB     (needs the modules zstandard and xxhash)
MIB is the size of what is unpacked: a few for `make check`, 255 for `make torture`. Beside each
folder OUT/<name> lies OUT/<name>.expect: "PROGRAM: words", words that this program's output must
hold; run.py gives each fixture to every program.
"""
import io
import json
import os
import sys
import tarfile

import xxhash
import zstandard

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from fixture_bytes import Fixture as Copy, blob, frame, pack, trailer, x128

GOLDEN, OUT = sys.argv[1:3]
MIB = int(sys.argv[3])
SIZE = MIB << 20
NO_ROOM = "--max-memory SIZE allows more"
STREAM = NO_ROOM if MIB < 16 else "a stream may hold" # of frames: more than 16 MiB are refused by the ratio
BLOB = NO_ROOM if MIB < 16 else "no valid blob header" # 4 GiB are the largest
OUTPUT = NO_ROOM if MIB < 16 else "more than a child takes"
KIND = {"exchanges": 2, "steps": 3, "ops": 4, "ledger": 5}
OP = {"op": 0, "step": 0, "kind": "gptq_gemm", "layer": "l", "attrs": {"m": 1, "n": 8, "k": 8}, "impl": {"symbol": "f"}}


def tensor(role, shape, dtype="F16", name=None, strides=None):
    t = {"role": role, "dtype": dtype, "shape": shape, "stored": name is not None}
    if strides is not None:
        t["strides"] = strides
    if name:
        t["blob"] = name
    return t


class Fixture(Copy):
    def __init__(self, name, *expect):
        super().__init__(GOLDEN, os.path.join(OUT, name))
        with open(self.dir + ".expect", "w", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in expect))

    def lines(self, stream, *frames, records=1):
        """Each frame: the bytes of its lines."""
        data = b"".join(frame(KIND[stream], i, records, raw) for i, raw in enumerate(frames))
        self.put(f"{stream}.jsonl.zst", data, True, records * len(frames))

    def ops(self, *ops):
        self.lines("ops", b"".join(json.dumps(o).encode() + b"\n" for o in ops), records=len(ops))


def fill(unit, size=None):
    """unit again and again, of about the size."""
    return unit * ((SIZE if size is None else size) // len(unit))


def zeros(size, encoding=1):
    """A blob of `size` zeros in a few kilobytes: (its name, its frame, size)."""
    z, h, out, left = zstandard.ZstdCompressor().compressobj(size=size), xxhash.xxh3_128(), b"", size
    piece = b"\0" * (1 << 20)
    while left:
        part = piece[:min(left, len(piece))]
        h.update(part)
        out += z.compress(part)
        left -= len(part)
    return h.hexdigest(), blob(b"", encoding, size, out + z.flush(), h.hexdigest()), size


def expansions():
    f = Fixture("line-of-numbers", f"verify: {STREAM}", f"differ: {STREAM}", f"exchange: {STREAM}")
    f.lines("exchanges", b'{"stream":1,"x":[' + fill(b"0,") + b"0]}\n")
    f = Fixture("line-of-objects", f"verify: {STREAM}")
    f.lines("ops", b'{"op":0,"kind":"k","judge":{"x":[' + fill(b"{},") + b"{}]}}\n")
    f = Fixture("line-of-tokens", f"verify: {STREAM}")
    n = SIZE // 2
    f.lines("exchanges", b'{"stream":1,"n_tokens":%d,"token_ids":[' % n + b"1," * (n - 1) + b"1]}\n")
    f = Fixture("line-of-nul", f"verify: {STREAM}")
    f.lines("exchanges", b'{"stream":1,"text":"' + fill(b"\xff") + b'"}\n')
    f = Fixture("padded-alternatives", f"verify: {NO_ROOM}")
    n = min(65536, SIZE // 3)
    f.lines("exchanges", b'{"stream":1,"n_tokens":%d,"top_k":1024,"top":[' % n + b"[]," * (n - 1) + b"[]]}\n")
    f = Fixture("many-exchanges", f"differ: {STREAM}")
    f.lines("exchanges", *[fill(b'{"stream":1}\n')] * 4, records=SIZE // 13)
    f = Fixture("tokens-for-minutes", "verify: a stream may hold", "differ: a stream may hold")
    line = b'{"stream":1,"n_tokens":30000,"token_ids":[' + b"7," * 29999 + b"7]}\n"
    f.lines("exchanges", *[line * 17] * 20, records=17)
    f = Fixture("many-ops", f"differ-new: {STREAM}")
    f.lines("ops", *[fill(b'{"op":1,"kind":"k","origin":{"op":1},"judge":{}}\n')] * 4, records=SIZE // 49)
    f = Fixture("many-steps")
    f.lines("steps", *[fill(b'{"step":1,"spans":[]}\n')] * 4, records=SIZE // 22)
    f = Fixture("many-facts")
    f.lines("ledger", *[fill(b'{"section":"a","key":"b","value":{}}\n')] * 2, records=SIZE // 37)
    f = Fixture("manifest-of-numbers", f"verify: {NO_ROOM}", f"gate: {NO_ROOM}")
    m = f.get("manifest.json").rstrip().rstrip(b"}")
    f.put("manifest.json", m + b',"x":[' + fill(b"0,", min(SIZE, 60 << 20)) + b"0]}")
    f = Fixture("long-names")
    name = "n" * min(SIZE // 4, 8 << 20)
    f.ops({**OP, "kind": name, "layer": name, "impl": {"symbol": name}})


def blobs():
    for name, encoding in (("blob-of-zeros", 1), ("planes-of-zeros", 2)):
        f = Fixture(name, f"export: {BLOB}")
        b = zeros(SIZE * 32, encoding)
        f.put("blobs.pack", pack([b]), True, 1)
        f.ops({**OP, "in": [tensor("a", [SIZE * 16], name=b[0])], "out": tensor("c", [1, 8])})
    f = Fixture("blob-larger-than-its-tensor", "export: more than its tensor")
    b = zeros(1 << 20)
    f.put("blobs.pack", pack([b]), True, 1)
    f.ops({**OP, "in": [tensor("a", [1, 8], name=b[0])], "out": tensor("c", [1, 8])})
    f = Fixture("blobs-of-80-gib", "verify: its blobs stand for")
    claims = [(x128(b"%d" % i), blob(b"", 1, (4 << 30) - 1, b"x" * 20, x128(b"%d" % i)), (4 << 30) - 1) for i in range(20)]
    f.put("blobs.pack", pack(claims), True, 20)
    f = Fixture("index-that-claims-less", "verify: the index does not agree")
    b = zeros(SIZE * 8)
    f.put("blobs.pack", pack([(b[0], b[1], 100)]), True, 1)
    f = Fixture("index-of-nothing", "verify: no valid index")
    f.put("blobs.pack", blob(b"", 255, 1 << 40, b"") + trailer(0), True)
    f = Fixture("window-of-a-gigabyte")
    raw = b"x" * 100
    stored = b"\x28\xb5\x2f\xfd\x80\xff\x64\0\0\0" + zstandard.compress(raw)[6:] # a header that claims a large window
    f.put("blobs.pack", pack([(x128(raw), blob(raw, 1, stored=stored), 100)]), True, 1)
    f = Fixture("window-of-64-mib", *([f"verify: {NO_ROOM}"] if MIB < 16 else []))
    raw = b"x" * (1 << 20)
    stored = b"\x28\xb5\x2f\xfd\x80\x80\0\0\x10\0" + zstandard.compress(raw)[9:]
    f.put("blobs.pack", pack([(x128(raw), blob(raw, 1, stored=stored), len(raw))]), True, 1)


def gemm(name, m, n, k, *expect):
    """A gemm whose inputs are zeros: a few kilobytes."""
    f = Fixture(name, *expect)
    a, w = zeros(m * k * 2), zeros(n * k * 2)
    f.put("blobs.pack", pack([a, w] if a[0] != w[0] else [a]), True, 1)
    f.ops({**OP, "kind": "gemm", "attrs": {"m": m, "n": n, "k": k}, "in": [tensor("a", [m, k], name=a[0]), tensor("w", [n, k], name=w[0])],
           "out": tensor("c", [m, n])})


def sizes():
    # what the process of a build holds: the output alone, and what our kernel works in
    gemm("gemm-of-gigabytes", 1 << 14, SIZE * 64 >> 14, 4, f"replay: {OUTPUT}")
    gemm("gemm-that-works-in-much", SIZE * 3 >> 10, 1, 1 << 9, f"replay: {NO_ROOM}")
    big = (1 << 31) - 1
    for name, shape, strides in (("shape-overflows", [1 << 40, 1 << 40], None), ("shape-of-zero-and-2-to-80", [0, 1 << 40, 1 << 40], None),
                                 ("strides-of-zero", [1 << 17, 1 << 17], [0, 0]), ("strides-overflow", [2, 2], [(1 << 62), (1 << 62)]),
                                 ("output-of-gigabytes", [1, 1 << 33], None)):
        f = Fixture(name)
        raw = b"\0" * 64
        f.put("blobs.pack", pack([(x128(raw), blob(raw), 64)]), True, 1)
        a = tensor("a", shape, name=x128(raw), strides=strides)
        w = [tensor("qweight", [1, 8], "I32", x128(raw)), tensor("qzeros", [1, 1], "I32", x128(raw)), tensor("scales", [1, 8], name=x128(raw))]
        attrs = {"m": shape[0], "n": shape[-1], "k": 8, "bits": 4, "group_size": 8, "zero_offset": 1}
        f.ops({**OP, "attrs": attrs, "in": [a] + w, "out": tensor("c", shape, strides=strides)})
    f = Fixture("numbers-at-their-ends")
    f.ops({**OP, "op": 9223372036854775807, "step": -9223372036854775808, "pid": 1 << 62, "t_ns": -1, "attrs": {"m": big, "n": -big, "k": 1 << 62}})
    f.lines("steps", json.dumps({"step": 1 << 62, "t_ns": -1, "pid": -1, "how": "exact",
                                 "spans": [[1 << 60, big, big, big, True], {"stream": -5, "first_row": big, "n_rows": big}]}).encode() + b"\n")
    f.lines("exchanges", json.dumps({"stream": 4294967295, "repeat": big, "concurrency": -big, "http_status": -big, "n_tokens": 0, "t_sent_ns": 1 << 62,
                                     "t_end_ns": -(1 << 62), "usage": {"prompt_tokens": 1 << 62, "completion_tokens": -1}}).encode() + b"\n")
    f = Fixture("ledger-at-its-end")
    m = json.loads(f.get("manifest.json"))
    m["ledger"] = {name: {"n": str((1 << 63) - 1), "bytes": str(-(1 << 63))} for name in ("ops.seen", "ops.kept", "ops.dropped.ring", "wire.received", "steps.seen")}
    m["clock"] = {k: str((-1) ** i * ((1 << 63) - 1)) for i, k in enumerate(("wall_ns", "end_wall_ns", "mono_ns", "end_mono_ns"))}
    f.put("manifest.json", json.dumps(m).encode())
    f = Fixture("files-of-negative-size")
    m = json.loads(f.get("manifest.json"))
    for i, fact in enumerate(m["files"].values()):
        fact.update(bytes=str((1 << 63) - 1) if i & 1 else -1, frames=str(1 << 62), records=-1)
    f.put("manifest.json", json.dumps(m).encode())


def names():
    f = Fixture("names-that-are-paths")
    for path in ("/etc/passwd", "../../outside", "/dev/zero", "|id", "$(id)", "%n%n%s", "-o", "--build=/bin/sh"):
        m = json.loads(f.get("manifest.json"))
        for section in ("server", "suite", "host", "build", "options"):
            m[section] = {k: path for k in ("model", "path", "name", "url", "engine", "version", "file", "cmd")}
        m["files"][path] = {"bytes": 1, "xxh3-128": "0" * 32}
        f.put("manifest.json", json.dumps(m).encode())
    f.ops(*[{**OP, "op": i, "kind": p, "layer": p, "in": [{**tensor(p[:20], [1]), "dtype": p[:10], "ref": {"checkpoint": p, "tensors": [p], "hash": "0" * 32}}],
             "impl": {"symbol": p, "library": p, "build": p, "layout": p}} for i, p in enumerate(("/etc/passwd", "../../x", "/dev/zero", "a\nb", "\x1b[2J"))])
    f = Fixture("deep")
    f.lines("ops", b'{"op":0,"kind":"k","judge":{"a":' + b'[' * 190 + b']' * 190 + b'}}\n')


def archives():
    def tdz(name, expect, *members):
        out = io.BytesIO()
        with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as z, tarfile.open(fileobj=z, mode="w|", format=tarfile.USTAR_FORMAT) as tar:
            for path, size in members:
                t = tarfile.TarInfo(path)
                t.size = size
                tar.addfile(t, Zeros(size))
        with open(os.path.join(OUT, name + ".tdz"), "wb") as f:
            f.write(out.getvalue())
        with open(os.path.join(OUT, name + ".expect"), "w") as f:
            f.write(expect + "\n")
    tdz("pack-of-zeros", "verify: --max-bytes N takes more", ("manifest.json", 2), ("wire.zst", SIZE * 32))


class Zeros(io.RawIOBase):
    def __init__(self, n):
        self.left = n

    def read(self, n=-1):
        n = self.left if n < 0 else min(n, self.left)
        self.left -= n
        return b"\0" * n


os.makedirs(OUT, exist_ok=True)
expansions()
blobs()
sizes()
names()
archives()
