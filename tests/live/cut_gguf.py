#!/usr/bin/env python3
"""cut_gguf.py IN.gguf OUT.gguf LAYERS - another model that a server can load: the first LAYERS layers of one.

Reads GGUF version 2 or 3 (github.com/ggml-org/ggml/blob/master/docs/gguf.md) and writes version 3. SPDX-License-Identifier: Apache-2.0
"""
import re
import struct
import sys

FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


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
        return self.data[self.at - n:self.at]

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            inner, n = self.take("I"), self.take("Q")
            for _ in range(n):
                self.skip(inner)
        else:
            self.take(FIXED[kind])


def string(s):
    return struct.pack("<Q", len(s)) + s


def main():
    source, target, layers = sys.argv[1], sys.argv[2], int(sys.argv[3])
    data = open(source, "rb").read()
    r = Reader(data)
    magic, version, n_tensors, n_fields = r.take("IIQQ")
    if magic != 0x46554747 or version not in (2, 3):
        sys.exit(f"{source}: not a GGUF of version 2 or 3")
    fields, alignment = [], 32
    for _ in range(n_fields):
        start, name, kind = r.at, r.string(), r.take("I")
        if name.endswith(b".block_count"):
            fields.append(string(name) + struct.pack("<II", kind, layers))
            r.skip(kind)
            continue
        if name == b"general.alignment":
            alignment = struct.unpack_from("<I", data, r.at)[0]
        r.skip(kind)
        fields.append(data[start:r.at])
    tensors = []
    for _ in range(n_tensors):
        name, n_dims = r.string(), r.take("I")
        dims = [r.take("Q") for _ in range(n_dims)]
        tensors.append((name, dims, r.take("I"), r.take("Q")))
    base = -(-r.at // alignment) * alignment
    ends = {t[3]: e for t, e in zip(sorted(tensors, key=lambda t: t[3]), sorted(t[3] for t in tensors)[1:] + [len(data) - base])}
    kept, at, blobs = [], 0, []
    for name, dims, kind, offset in tensors:
        m = re.match(rb"blk\.(\d+)\.", name)
        if m and int(m.group(1)) >= layers:
            continue
        kept.append(string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, at))
        blob = data[base + offset:base + ends[offset]]
        blobs.append(blob + b"\0" * (-len(blob) % alignment))
        at += len(blobs[-1])
    head = struct.pack("<IIQQ", magic, 3, len(kept), len(fields)) + b"".join(fields) + b"".join(kept)
    with open(target, "wb") as f:
        f.write(head + b"\0" * (-len(head) % alignment))
        f.writelines(blobs)


main()
