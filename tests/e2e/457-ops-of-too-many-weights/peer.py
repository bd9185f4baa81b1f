"""peer.py SOCKET COUNT - a tap that sends COUNT ops, each with a weight of another name that it does not send (recorder/tap/core/tap_proto.h).
It answers each message with OK, and ends with its connection. Prints "ready" when it listens.
SPDX-License-Identifier: Apache-2.0
"""
import array
import ctypes
import mmap
import os
import socket
import struct
import sys
import threading
import time

MAGIC, VERSION, PAGE = 0x50415444, int(sys.argv[3]), 4096
HELLO, ATTACH, ARM, OK = 1, 2, 3, 5


def message(kind, generation=0):
    head = struct.pack("<6IQ6Iqq", MAGIC, VERSION, kind, 0, 0, 0, 0, 0, generation, 0, 0, 0, 0, 0, os.getpid())
    return head + bytes(256) + bytes(256) + bytes(256) + b"vllm".ljust(64, b"\0")


def record(kind, body):
    size = (24 + len(body) + 15) // 16 * 16
    return struct.pack("<IHHIIq", size, kind, 0, 1, 1, time.monotonic_ns()) + body.ljust(size - 24, b"\0")


def tensor(role, shape, bytes_, opaque=0):
    return struct.pack("<24s16siHH", role, b"F32", 2, opaque, 6) + struct.pack("<16q", *shape, *[0] * 6, shape[1], 1, *[0] * 6) + struct.pack("<Q", bytes_)


def op(number):
    head = struct.pack("<QQq32s512s32s32s96sI6H4H", number, 1, 5, b"gemm", b"other_mm", b"", b"none", b"l%d" % number, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0)
    body = head + tensor(b"w", (4, 4), 0, 1) + tensor(b"a", (1, 4), 16) + tensor(b"c", (1, 4), 16)
    return record(3, body.ljust((24 + len(body) + 15) // 16 * 16 - 24, b"\0") + b"\1" * 16 + b"\2" * 16)


def send_ops(m, rings, ring_bytes):
    head, tail = (ctypes.c_uint64.from_buffer(m, PAGE + at) for at in (0, 64))
    start = PAGE * (1 + rings)
    for data in [record(1, struct.pack("<QiI", 1, 0, 0))] + [op(i) for i in range(int(sys.argv[2]))]:
        while head.value + len(data) - tail.value > ring_bytes:
            time.sleep(0.0005)
        at = head.value % ring_bytes
        n = min(len(data), ring_bytes - at)
        m[start + at:start + at + n], m[start:start + len(data) - n] = data[:n], data[n:]
        head.value += len(data)


listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
listener.listen(5)
print("ready", flush=True)
tap, _ = listener.accept()
tap.sendall(message(HELLO))
generation, sender = 0, None
while True:
    data, ancillary, _, _ = tap.recvmsg(4096, 4096)
    if not data:
        break
    kind, rings, ring_bytes = struct.unpack_from("<I4xIxxxxQ", data, 8)
    if kind == ATTACH:
        m = mmap.mmap(array.array("i", ancillary[0][2][:4])[0], PAGE * (1 + rings) + rings * ring_bytes)
        where = m, rings, ring_bytes
    if kind == ARM:
        generation += 1
    elif sender:
        sender.join()
    tap.sendall(message(OK, generation if kind == ARM else 0))
    if kind == ARM and not sender:
        sender = threading.Thread(target=send_ops, args=where, daemon=True)
        sender.start()
