#!/usr/bin/env python3
"""read_fixture.py - an independent reader of fixtures, written from docs/format.md with numpy and
zstandard.

SPDX-License-Identifier: Apache-2.0
It shares no code with Tapedeck. If the two disagree, one of them or the document is wrong; case 031
compares them. Checksums are compared if the module xxhash is installed (Debian: python3-xxhash).

  read_fixture.py FIXTURE            one JSON line for each record ({"stream": name, ...}), then one
                                     for each blob, then the sums
  read_fixture.py FIXTURE --quiet    the sums only
"""
import base64
import json
import os
import struct
import sys

import numpy
import zstandard

try:
    import xxhash
except ImportError:
    xxhash = None

KINDS = {"wire.zst": 1, "exchanges.jsonl.zst": 2, "steps.jsonl.zst": 3, "ops.jsonl.zst": 4, "ledger.jsonl.zst": 5}


class Bad(Exception):
    pass


def check64(data, want, where):
    if xxhash and xxhash.xxh3_64_intdigest(data) != want:
        raise Bad(f"{where}: checksum")


def hash128(data):
    return f"{xxhash.xxh3_128_intdigest(data):032x}" if xxhash else None


def frames(data, kind):
    """Yield raw bytes and number of records of each frame of a stream file."""
    at, due = 0, 0
    while at < len(data):
        if len(data) - at < 56:
            raise Bad(f"offset {at}: torn header")
        magic, skip, mark, version, k, number, records, raw, comp, zero, total, head = struct.unpack_from("<II4sHHQIIIIQQ", data, at)
        if (magic, skip, mark, version, k) != (0x184D2A5D, 48, b"TDFR", 1, kind):
            raise Bad(f"offset {at}: no header")
        check64(data[at + 8:at + 48], head, f"frame {number} header")
        body = data[at + 56:at + 56 + comp]
        if len(body) != comp or number != due:
            raise Bad(f"frame {number}: cut short, or not the one due")
        check64(body, total, f"frame {number}")
        out = zstandard.ZstdDecompressor().decompress(body, max_output_size=raw)
        if len(out) != raw:
            raise Bad(f"frame {number}: length")
        yield out, records
        at += 56 + comp
        due += 1


def wire(raw):
    at = 0
    while at < len(raw):
        t, stream, direction, flags, _, n = struct.unpack_from("<qIBBHI", raw, at)
        yield {"t_ns": t, "n": stream, "dir": direction, "redacted": bool(flags & 1),
               "base64": base64.b64encode(raw[at + 20:at + 20 + n]).decode()}
        at += 20 + n


def blobs(data, wanted=None):
    """Yield hash, encoding and raw bytes of each blob, or of those with a hash in `wanted`. Walks the headers; does not use the index."""
    at = 0
    while at < len(data):
        if data[at + 8:at + 16] == b"TDBLEND1":
            at += 24
            continue
        mark, version, encoding, zero, raw, stored, hi, lo, total, zero2, head = struct.unpack_from("<4sHBBQQQQQQQ", data, at)
        if (mark, version) != (b"TDBL", 1):
            raise Bad(f"pack offset {at}: no header")
        check64(data[at:at + 56], head, f"pack offset {at} header")
        name = f"{hi:016x}{lo:016x}"
        if wanted is not None and name not in wanted:
            at += 64 + stored
            continue
        body = data[at + 64:at + 64 + stored]
        check64(body, total, f"pack offset {at}")
        at += 64 + stored
        if encoding == 255:
            continue
        if encoding:
            body = zstandard.ZstdDecompressor().decompress(body, max_output_size=raw)
        if encoding == 2:
            half = raw // 2
            planes = numpy.frombuffer(body, numpy.uint8)
            out = numpy.empty(raw, numpy.uint8)
            out[0:2 * half:2] = planes[:half]
            out[1:2 * half:2] = planes[half:2 * half]
            out[2 * half:] = planes[2 * half:]
            body = out.tobytes()
        if len(body) != raw or (xxhash and hash128(body) != name):
            raise Bad(f"blob {name}: content")
        yield name, encoding, body


def main():
    folder, quiet = sys.argv[1], "--quiet" in sys.argv[2:]
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as f:
        manifest = json.load(f)
    if manifest["format"] != "tapedeck-fixture" or manifest["version"] != 1:
        raise Bad("manifest: format or version")
    sums = {"id": manifest["id"], "checksums": bool(xxhash)}

    def say(obj):
        if not quiet:
            print(json.dumps(obj, ensure_ascii=True, separators=(",", ":")))

    for name, kind in KINDS.items():
        with open(os.path.join(folder, name), "rb") as f:
            data = f.read()
        fact = manifest["files"][name]
        if len(data) != int(fact["bytes"]) or (xxhash and hash128(data) != fact["xxh3-128"]):
            raise Bad(f"{name}: not as in the manifest")
        count = 0
        for raw, records in frames(data, kind):
            items = list(wire(raw)) if kind == 1 else [json.loads(line) for line in raw.decode("utf-8").split("\n")[:-1]]
            if len(items) != records:
                raise Bad(f"{name}: count of records")
            for item in items:
                say({"stream": name.split(".")[0], "record": item})
            count += len(items)
        if count != int(fact["records"]):
            raise Bad(f"{name}: records")
        sums[name.split(".")[0]] = count
    with open(os.path.join(folder, "blobs.pack"), "rb") as f:
        data = f.read()
    sums["blobs"] = 0
    for name, encoding, body in blobs(data):
        halves = numpy.frombuffer(body[:len(body) & ~1], "<u2")
        say({"blob": name, "bytes": len(body), "encoding": encoding, "sum_u16": int(halves.sum(dtype=numpy.uint64))})
        sums["blobs"] += 1
    print(json.dumps({"sums": sums}))


if __name__ == "__main__":
    try:
        main()
    except (Bad, KeyError, OSError, ValueError, struct.error, zstandard.ZstdError) as e:
        sys.exit(f"read_fixture: {e}")
