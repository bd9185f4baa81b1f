"""fixture_bytes.py - write the bytes of a fixture as nobody's recorder would: frames and blobs whose
headers say what one likes. Needs the modules zstandard and xxhash.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import shutil
import struct

import xxhash
import zstandard

x64, x128 = xxhash.xxh3_64_intdigest, xxhash.xxh3_128_hexdigest


def frame(kind, number, records, raw, raw_len=None):
    """A frame of a stream. kind : 1 wire, 2 exchanges, 3 steps, 4 ops, 5 ledger"""
    body = zstandard.ZstdCompressor(write_checksum=True).compress(raw)
    head = struct.pack("<4sHHQIIIIQ", b"TDFR", 1, kind, number, records, len(raw) if raw_len is None else raw_len, len(body), 0, x64(body))
    return struct.pack("<II", 0x184D2A5D, 48) + head + struct.pack("<Q", x64(head)) + body


def blob(raw, encoding=0, raw_len=None, stored=None, name=None):
    """A blob of the pack. encoding : 0 raw, 1 zstd, 2 byte planes, 255 the index"""
    stored = raw if stored is None else stored
    h = bytes.fromhex(name or x128(raw))
    head = struct.pack("<4sHBBQQ", b"TDBL", 1, encoding, 0, len(raw) if raw_len is None else raw_len, len(stored))
    head += h[:8][::-1] + h[8:][::-1] + struct.pack("<QQ", x64(stored), 0)
    return head + struct.pack("<Q", x64(head)) + stored


def trailer(at):
    t = struct.pack("<Q", at) + b"TDBLEND1"
    return t + struct.pack("<Q", x64(t))


def index_entry(name, at, raw_len):
    h = bytes.fromhex(name)
    return h[:8][::-1] + h[8:][::-1] + struct.pack("<QQ", at, raw_len)


def pack(blobs):
    """A pack of [(name, bytes of blob(), raw_len)], with its index."""
    data, index = b"", b""
    for name, b, raw_len in blobs:
        index += index_entry(name, len(data), raw_len)
        data += b
    return data + blob(index, 255) + trailer(len(data))


def frames(data):
    at = 0
    while at < len(data):
        n = struct.unpack_from("<I", data, at + 32)[0] + 56
        yield data[at:at + n]
        at += n


class Fixture:
    """A copy of the fixture `golden` in the folder `dir`."""

    def __init__(self, golden, dir):
        self.dir = dir
        shutil.rmtree(self.dir, ignore_errors=True)
        shutil.copytree(golden, self.dir)
        for name in os.listdir(self.dir):
            os.chmod(self.path(name), 0o644)

    def path(self, name):
        return os.path.join(self.dir, name)

    def get(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def put(self, name, data, listed=False, records=None):
        """listed: the manifest agrees, so that only what is inside is wrong."""
        with open(self.path(name), "wb") as f:
            f.write(data)
        if listed:
            m = json.loads(self.get("manifest.json"))
            fact = m["files"][name]
            fact["bytes"], fact["xxh3-128"] = len(data), x128(data)
            if records is not None:
                fact["records"] = records
            self.put("manifest.json", json.dumps(m, indent=1).encode())
