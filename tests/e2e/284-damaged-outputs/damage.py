"""damage.py - damage the bytes of a recorded tensor, and print what a report says of damage.

    damage.py flip FIXTURE OP ROLE    change a stored byte of the tensor's blob
    damage.py head FIXTURE OP ROLE    change the header of that blob, and the pack's index
    damage.py said REPORT.json        the notes of lane ops, without what differs from run to run
SPDX-License-Identifier: Apache-2.0
"""
import json
import re
import struct
import subprocess
import sys


def blob_of(fixture, number, role):
    lines = subprocess.run(["zstd", "-dcq", f"{fixture}/ops.jsonl.zst"], capture_output=True, check=True).stdout
    op = next(o for o in map(json.loads, lines.splitlines()) if o["op"] == number)
    tensors = [op["out"]] + list(op["in"])
    return next(t["blob"] for t in tensors if t["role"] == role)


def damage(what, fixture, number, role):
    b = bytearray(open(f"{fixture}/blobs.pack", "rb").read())
    blob = blob_of(fixture, int(number), role)
    content = struct.pack("<QQ", int(blob[:16], 16), int(blob[16:], 16))
    at = b.find(content) - 24
    assert b[at:at + 4] == b"TDBL", "the first place of a hash is the header of its blob"
    if what == "flip":
        b[at + 64 + struct.unpack_from("<Q", b, at + 16)[0] // 2] ^= 0x55
    else:
        b[at + 8] ^= 0x55
        b[-60] ^= 0x55
    open(f"{fixture}/blobs.pack", "wb").write(b)


def said(path):
    report = json.load(open(path))
    notes = report["lanes"]["ops"]["notes"] if report["lanes"] else []
    for n in notes:
        if "covered" not in n["text"] and "not shown" not in n["text"]:
            print(f"  {n['verdict']}:", re.sub(r"blob [0-9a-f]{32}( at offset [0-9]+)?", "BLOB", n["text"]))
    for a in report["absent"]:
        print(f"  absent {a['what']} of the {a['side']}: {a['seen']} of {a['planned']}, {a['verdict']}")


if sys.argv[1] == "said":
    said(sys.argv[2])
else:
    damage(*sys.argv[1:])
