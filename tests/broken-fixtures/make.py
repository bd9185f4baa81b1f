#!/usr/bin/env python3
"""make.py - write the broken fixtures: copies of the golden fixture with one fault each.

SPDX-License-Identifier: Apache-2.0
usage: make.py GOLDEN OUT     (needs the modules zstandard and xxhash; its output is committed to git)
Beside each folder OUT/<fault> lies OUT/<fault>.expect: each of its lines must occur in a line of
`fixture verify`'s report.
"""
import os
import struct
import sys

import zstandard

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from fixture_bytes import Fixture as Copy, blob, frame, frames, index_entry, trailer, x64, x128

GOLDEN, OUT = sys.argv[1:3]


class Fixture(Copy):
    def __init__(self, name):
        super().__init__(GOLDEN, os.path.join(OUT, name))

    def expect(self, *lines):
        with open(self.dir + ".expect", "w", encoding="utf-8") as f:
            f.write("".join(line + "\n" for line in lines))


def line_fault(name, file, kind, line, *expect):
    f = Fixture(name)
    f.put(file, frame(kind, 0, 1, line), True, 0)
    f.expect(*expect)


def main():
    f = Fixture("wire-flipped")
    data = bytearray(f.get("wire.zst"))
    data[100] ^= 1
    f.put("wire.zst", data)
    f.expect("wire.zst: corrupt: its checksum is not the manifest's", "frame 0 at offset 0: checksum of the compressed bytes differs")

    f = Fixture("wire-frame-removed")
    f.put("wire.zst", list(frames(f.get("wire.zst")))[1], True, 6)
    f.expect("frame 1 stands at offset 0 where frame 0 is due; frames are missing")

    f = Fixture("wire-torn")
    f.put("wire.zst", f.get("wire.zst")[:-5])
    f.expect("wire.zst: truncated: ", "frame 1 at offset", "is incomplete (the file ends within it)")

    f = Fixture("wire-grew")
    f.put("wire.zst", f.get("wire.zst") + b"\0" * 100)
    f.expect("wire.zst: corrupt: ", "it grew", "no valid header here")

    f = Fixture("wire-of-another-kind")
    f.put("wire.zst", f.get("steps.jsonl.zst"), True, 1)
    f.expect("wire.zst: corrupt: ", "no valid header here")

    f = Fixture("wire-record-too-long")
    f.put("wire.zst", frame(1, 0, 1, struct.pack("<qIBBHI", 1, 0, 0, 0, 0, 1000) + b"short"), True, 0)
    f.expect("frame 0, byte 0: no wire record here")

    f = Fixture("wire-frame-claims-too-much")
    f.put("wire.zst", frame(1, 0, 1, b"x", (256 << 20) + 1), True, 0)
    f.expect("wire.zst: corrupt: ", "no valid header here")

    f = Fixture("wire-frame-claims-more-than-it-holds")
    f.put("wire.zst", frame(1, 0, 1, b"x", 200 << 20), True, 0)
    f.expect("zstd cannot decompress it to the length given")

    f = Fixture("steps-later-version")
    data = bytearray(f.get("steps.jsonl.zst"))
    data[12] = 9
    data[48:56] = struct.pack("<Q", x64(bytes(data[8:48])))
    f.put("steps.jsonl.zst", data, True, 0)
    f.expect("steps.jsonl.zst: unknown version: ")

    f = Fixture("ops-missing")
    os.unlink(f.path("ops.jsonl.zst"))
    f.expect("ops.jsonl.zst: not found: missing, though the manifest lists it")

    line_fault("exchange-no-json", "exchanges.jsonl.zst", 2, b"{\"stream\":1,\n", "frame 0, byte 0: not JSON at offset")
    line_fault("exchange-no-stream", "exchanges.jsonl.zst", 2, b"{\"prompt_id\":\"a\"}\n", "exchange: no object with a \"stream\"")
    line_fault("exchange-token-count", "exchanges.jsonl.zst", 2, b'{"stream":1,"n_tokens":3,"token_ids":[1,2]}\n', "\"n_tokens\" does not agree with \"token_ids\"")
    line_fault("exchange-top-too-wide", "exchanges.jsonl.zst", 2, b'{"stream":1,"n_tokens":1,"top_k":100000,"top":[[1,2]]}\n', "exchanges.jsonl.zst: limit exceeded: ")
    line_fault("exchange-too-deep", "exchanges.jsonl.zst", 2, b'{"stream":1,"x":' + b"[" * 300 + b"]" * 300 + b"}\n", "JSON: nested deeper than 200")
    line_fault("op-shape-overflows", "ops.jsonl.zst", 4, b'{"op":0,"kind":"k","in":[{"role":"a","shape":[4000000000,4000000000,4000000000]}]}\n',
               "ops.jsonl.zst: limit exceeded: ", "its shape is beyond 2^62 elements")
    line_fault("op-bad-hash", "ops.jsonl.zst", 4, b'{"op":0,"kind":"k","in":[{"role":"a","blob":"../../etc/passwd"}]}\n', "\"blob\" is no hash")
    line_fault("op-needs-lost-blob", "ops.jsonl.zst", 4, b'{"op":0,"kind":"k","in":[{"role":"a","blob":"00000000000000010000000000000002","stored":true}]}\n',
               "blobs.pack: not found: op 0 needs blob 00000000000000010000000000000002 (\"a\"), which is not there")

    f = Fixture("pack-flipped")
    data = bytearray(f.get("blobs.pack"))
    data[70] ^= 1
    f.put("blobs.pack", data)
    f.expect("blobs.pack: corrupt: its checksum is not the manifest's", "offset 0: checksum of the stored bytes differs")

    f = Fixture("pack-no-index")
    f.put("blobs.pack", f.get("blobs.pack")[:-10])
    f.expect("blobs.pack: truncated: ", "no valid index at its end")

    f = Fixture("pack-index-points-elsewhere")
    data = bytearray(f.get("blobs.pack"))
    at = struct.unpack_from("<Q", data, len(data) - 24)[0]
    entries = bytearray(data[at + 64:-24])
    a, b = bytes(entries[16:24]), bytes(entries[48:56])
    entries[16:24], entries[48:56] = b, a
    f.put("blobs.pack", bytes(data[:at]) + blob(bytes(entries), 255) + trailer(at), True)
    f.expect("blobs.pack: corrupt: the index does not agree with the frame at offset")

    f = Fixture("pack-blob-is-another")
    data = blob(b"what it holds", 0, name=x128(b"what it says"))
    f.put("blobs.pack", data + blob(b"", 255) + trailer(len(data)), True)
    f.expect("blobs.pack: corrupt: ", "at offset 0: corrupt")

    f = Fixture("pack-blob-twice") # the second one is not even looked at
    data = blob(b"once", 0)
    f.put("blobs.pack", data + blob(b"more", 0, name=x128(b"once")) + blob(index_entry(x128(b"once"), 0, 4), 255) + trailer(2 * len(data)), True)
    f.expect("the index does not agree with the frame at offset %d" % len(data))

    f = Fixture("pack-blob-claims-4-gib")
    data = blob(b"x" * 64, 1, raw_len=4 << 30, stored=zstandard.compress(b"x" * 64))
    f.put("blobs.pack", data + blob(b"", 255) + trailer(len(data)), True)
    f.expect("blobs.pack: corrupt: ", "at offset 0: corrupt")

    f = Fixture("manifest-cut")
    f.put("manifest.json", f.get("manifest.json")[:300])
    f.expect("manifest.json: corrupt: ")

    f = Fixture("manifest-later-version")
    f.put("manifest.json", f.get("manifest.json").replace(b'"version": 1', b'"version": 99'))
    f.expect("manifest.json: unknown version: ")

    f = Fixture("manifest-other-hash")
    f.put("manifest.json", f.get("manifest.json").replace(b'"hash": "xxh3-128"', b'"hash": "sha1"'))
    f.expect("manifest.json: unknown version: ", "hash \"sha1\" is not known")

    f = Fixture("manifest-no-id")
    f.put("manifest.json", f.get("manifest.json").replace(b'"id"', b'"di"'))
    f.expect("\"id\" is not 32 hexadecimal digits")

    f = Fixture("manifest-missing")
    os.unlink(f.path("manifest.json"))
    f.expect("manifest.json: not found: ", "fixture repair")


if __name__ == "__main__":
    main()
