#!/usr/bin/env python3
# Write the seeds of fuzz_uncompress, and those of fuzz_capture that are compressed: see the heads of these.
# SPDX-License-Identifier: Apache-2.0
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "..", "fakes"))
from compress import Compressor, compressed  # noqa: E402
from packets import ETHERNET, Connection, body_of  # noqa: E402

CODINGS = ["gzip", "deflate", "br", "zstd"]


def seed(name, coding, data, piece=7):
    os.makedirs(os.path.join(here, "uncompress"), exist_ok=True)
    with open(os.path.join(here, "uncompress", name), "wb") as f:
        f.write(bytes([CODINGS.index(coding), piece]) + data)


text = body_of("world " * 9)
for coding in CODINGS:
    c = Compressor(coding)
    parts = [c.part(b"data: {\"a\": %d}\n\n" % i) for i in range(4)] + [c.end()]
    seed(f"{coding}_stream", coding, b"".join(parts), 1)
    seed(f"{coding}_whole", coding, compressed(coding, text), 0)
    seed(f"{coding}_twice", coding, compressed(coding, text) * 2, 50)
    seed(f"{coding}_bomb", coding, compressed(coding, bytes(1 << 21)), 0)
    k = Connection()
    packets = k.open() + k.request() + k.send(False, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: %s\r\n"
                                              b"Transfer-Encoding: chunked\r\n\r\n" % coding.encode()
                                              + b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts if p) + b"0\r\n\r\n", 60) + k.close()
    with open(os.path.join(here, "capture", f"compressed_{coding}"), "wb") as f:
        f.write(b"\0")
        for p in packets:
            frame = p.frame(ETHERNET)
            f.write(bytes([1, len(frame) >> 8, len(frame) & 255, 0]) + frame)
seed("deflate_bare", "deflate", compressed("bare deflate", text), 3)
c = Compressor("wide zstd")
seed("zstd_wide", "zstd", c.part(text) + c.end(), 0)
seed("zstd_legacy", "zstd", b"\x27\xb5\x2f\xfd\0\n0", 1)  # a frame of before RFC 8878
