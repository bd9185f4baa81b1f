"""peer.py SOCKET HOW VERSION - a tap that sends one op, is disarmed in order, and then breaks (recorder/tap/core/tap_proto.h).
HOW: ring, it says that its ring holds more than the ring has room for; gone, it hangs up; fine, it does neither.
It breaks 0.3 seconds after its answer to DISARM: while record has answers scored. Prints "ready" when it listens.
SPDX-License-Identifier: Apache-2.0
"""
import array
import ctypes
import mmap
import os
import socket
import struct
import sys
import time

MAGIC, VERSION, PAGE = 0x50415444, int(sys.argv[3]), 4096
HELLO, ATTACH, ARM, DISARM, OK = 1, 2, 3, 4, 5


def message(kind, generation=0):
    head = struct.pack("<6IQ6Iqq", MAGIC, VERSION, kind, 0, 0, 0, 0, 0, generation, 0, 0, 0, 0, 0, os.getpid())
    return head + bytes(256) + bytes(256) + bytes(256) + b"vllm".ljust(64, b"\0")


def record(kind, body):
    size = (24 + len(body) + 15) // 16 * 16
    return struct.pack("<IHHIIq", size, kind, 0, 1, 1, time.monotonic_ns()) + body.ljust(size - 24, b"\0")


def tensor(role, shape, bytes_):
    return struct.pack("<24s16siHH", role, b"F32", 2, 0, 6) + struct.pack("<16q", *shape, *[0] * 6, shape[1], 1, *[0] * 6) + struct.pack("<Q", bytes_)


def op():
    head = struct.pack("<QQq32s512s32s32s96sI6H4H", 1, 1, 5, b"gemm", b"other_mm", b"", b"none", b"l1", 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0)
    body = head + tensor(b"a", (1, 4), 16) + tensor(b"c", (1, 4), 16)
    return record(3, body.ljust((24 + len(body) + 15) // 16 * 16 - 24, b"\0") + b"\1" * 16 + b"\2" * 16)


listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
listener.listen(5)
print("ready", flush=True)
tap, _ = listener.accept()
tap.sendall(message(HELLO))
while True:
    data, ancillary, _, _ = tap.recvmsg(4096, 4096)
    if not data:
        break
    kind, = struct.unpack_from("<I", data, 8)
    if kind == ATTACH:
        rings, ring_bytes = struct.unpack_from("<IxxxxQ", data, 16)
        m = mmap.mmap(array.array("i", ancillary[0][2][:4])[0], PAGE * (1 + rings) + rings * ring_bytes)
    tap.sendall(message(OK, 1 if kind == ARM else 0))
    head = ctypes.c_uint64.from_buffer(m, PAGE)
    if kind == ARM:
        sent = record(1, struct.pack("<QiI", 1, 0, 0)) + op()
        m[PAGE * (1 + rings):PAGE * (1 + rings) + len(sent)] = sent
        head.value = len(sent)
    if kind == DISARM:
        time.sleep(0.3)
        if sys.argv[2] == "ring":
            head.value += 2 * ring_bytes
        if sys.argv[2] == "gone":
            break
