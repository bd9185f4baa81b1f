"""forge.py FIXTURE [MEMBER...] - put control characters and forged lines into every string of a recording that a program may print.
MEMBERs are forged too, although a reader needs them as they are. Checksums are made anew, as an attacker would.
SPDX-License-Identifier: Apache-2.0
"""
import json
import struct
import subprocess
import sys
from ctypes import CDLL, Structure, c_char_p, c_size_t, c_uint64

EVIL = "\x1b[2J\x07\x9b31m\u202e\nverdict: pass\n::error::forged\r\x7f"
SHORT = {"dtype": 11, "role": 11, "layout": 11}  # characters, 14 bytes; longer ones are refused
KEPT = {"hash", "blob", "role", "dtype", "kind", "phase", "state", "format", "id", "of", "api", "method", "path", "act_rounding",
        "layout", "wall_ns", "mono_ns", "end_wall_ns", "end_mono_ns", "xxh3-128", "request", "how", "isa", "transforms", "checkpoint"}


class Hash128(Structure):
    _fields_ = [("low", c_uint64), ("high", c_uint64)]


library = CDLL("libxxhash.so.0")
hash64, hash128 = library.XXH3_64bits, library.XXH3_128bits
hash64.restype, hash128.restype = c_uint64, Hash128
hash64.argtypes = hash128.argtypes = [c_char_p, c_size_t]


def frame(raw, records, kind):
    """The only frame of a stream file (docs/format.md)."""
    open("raw", "wb").write(raw)
    body = subprocess.run(["zstd", "-qc", "raw"], capture_output=True, check=True).stdout
    head = struct.pack("<4sHHQIIIIQ", b"TDFR", 1, kind, 0, records, len(raw), len(body), 0, hash64(body, len(body)))
    return struct.pack("<II", 0x184D2A5D, 48) + head + struct.pack("<Q", hash64(head, len(head))) + body


def poison(v, key=""):
    """v with EVIL behind every string that no reader needs as it is."""
    if isinstance(v, dict):
        return {k: x if k in KEPT else poison(x, k) for k, x in v.items()}
    if isinstance(v, list):
        return [poison(x, key) for x in v]
    if key in SHORT and isinstance(v, str):
        return EVIL[:SHORT[key]]
    return v[:40] + EVIL if isinstance(v, str) else v


folder = sys.argv[1]
KEPT -= set(sys.argv[2:])
m = json.load(open(folder + "/manifest.json"))
for name, kind in (("exchanges.jsonl.zst", 2), ("ops.jsonl.zst", 4)):
    rows = subprocess.run(["zstd", "-dcq", f"{folder}/{name}"], capture_output=True, check=True).stdout.splitlines()
    raw = b"".join(json.dumps(poison(json.loads(r))).encode() + b"\n" for r in rows)
    data = frame(raw, len(rows), kind)
    open(f"{folder}/{name}", "wb").write(data)
    h = hash128(data, len(data))
    m["files"][name] = {"bytes": len(data), "frames": 1, "records": len(rows), "xxh3-128": f"{h.high:016x}{h.low:016x}"}
for part in ("host", "suite", "options", "server", "tap", "tool", "tool_version", "seen", "plan"):
    if part in m:
        m[part] = poison(m[part])
for part in sys.argv[2:]:
    if isinstance(m.get(part), str):
        m[part] += EVIL
json.dump(m, open(folder + "/manifest.json", "w"))
