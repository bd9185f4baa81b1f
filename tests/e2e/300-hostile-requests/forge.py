"""forge.py FIXTURE HOST STATEMENT - change every exchange x, or the manifest m, of a recording. Checksums are made anew, as
an attacker would.
SPDX-License-Identifier: Apache-2.0
"""
import json
import struct
import subprocess
import sys
from ctypes import CDLL, Structure, c_char_p, c_size_t, c_uint64


class Hash128(Structure):
    _fields_ = [("low", c_uint64), ("high", c_uint64)]


library = CDLL("libxxhash.so.0")
hash64, hash128 = library.XXH3_64bits, library.XXH3_128bits
hash64.restype, hash128.restype = c_uint64, Hash128
hash64.argtypes = hash128.argtypes = [c_char_p, c_size_t]


def frame(raw, records):
    """The only frame of an exchanges file (docs/format.md)."""
    open("raw", "wb").write(raw)
    body = subprocess.run(["zstd", "-qc", "raw"], capture_output=True, check=True).stdout
    head = struct.pack("<4sHHQIIIIQ", b"TDFR", 1, 2, 0, records, len(raw), len(body), 0, hash64(body, len(body)))
    return struct.pack("<II", 0x184D2A5D, 48) + head + struct.pack("<Q", hash64(head, len(head))) + body


folder, there, statement = sys.argv[1:]
name = "exchanges.jsonl.zst"
rows = subprocess.run(["zstd", "-dcq", f"{folder}/{name}"], capture_output=True, check=True).stdout.splitlines()
m = json.load(open(folder + "/manifest.json"))
lines = b""
for row in rows:
    x = json.loads(row)
    exec(statement)
    lines += json.dumps(x).encode() + b"\n"
data = frame(lines, len(rows))
open(f"{folder}/{name}", "wb").write(data)
h = hash128(data, len(data))
m["files"][name] = {"bytes": len(data), "frames": 1, "records": len(rows), "xxh3-128": f"{h.high:016x}{h.low:016x}"}
json.dump(m, open(folder + "/manifest.json", "w"))
