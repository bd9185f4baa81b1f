#!/usr/bin/env python3
"""cut_gguf.py IN.gguf OUT.gguf LAYERS - write the first LAYERS layers of a model as a model of its
own.

A server can load the result: rows use it as "another model", which must not be comparable.

SPDX-License-Identifier: Apache-2.0
"""
import re
import struct
import sys

import gguf_file


def main():
    source, target, layers = gguf_file.File(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    fields, tensors, blobs, at = [], [], [], 0
    for key, (value, raw) in source.fields.items():
        fields.append(bytes(raw[:-4]) + struct.pack("<I", layers) if key.endswith(".block_count") else bytes(raw))
    for t in source.tensors:
        m = re.match(r"blk\.(\d+)\.", t.name)
        if m and int(m.group(1)) >= layers:
            continue
        tensors.append(gguf_file.string(t.name.encode()) + struct.pack(f"<I{len(t.dims)}QIQ", len(t.dims), *t.dims, t.type, at))
        blobs.append(bytes(t.data) + b"\0" * (-len(t.data) % source.alignment))
        at += len(blobs[-1])
    head = struct.pack("<IIQQ", gguf_file.MAGIC, 3, len(tensors), len(fields)) + b"".join(fields) + b"".join(tensors)
    with open(target, "wb") as f:
        f.write(head + b"\0" * (-len(head) % source.alignment))
        f.writelines(blobs)


main()
