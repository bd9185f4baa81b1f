"""tap_wire.py - what a tap says to record, for peers that stand in for one (recorder/tap/core/tap_proto.h).
SPDX-License-Identifier: Apache-2.0"""
import array
import mmap
import os
import socket
import struct
import time

MAGIC, PAGE = 0x50415444, 4096
HELLO, ATTACH, ARM, DISARM, OK = 1, 2, 3, 4, 5


def message(version, kind, generation=0):
    head = struct.pack("<6IQ6Iqq", MAGIC, version, kind, 0, 0, 0, 0, 0, generation, 0, 0, 0, 0, 0, os.getpid())
    return head + bytes(256) + bytes(256) + bytes(256) + b"vllm".ljust(64, b"\0") + bytes(2 * 4 + 3 * 8 + 512)


def record(kind, body):
    size = (24 + len(body) + 15) // 16 * 16
    return struct.pack("<IHHIIq", size, kind, 0, 1, 1, time.monotonic_ns()) + body.ljust(size - 24, b"\0")


def step():
    return record(1, struct.pack("<QiI", 1, 0, 0))


def tensor(role, shape, bytes_, opaque=0):
    return struct.pack("<24s16siHH", role, b"F32", 2, opaque, 6) + struct.pack("<16q", *shape, *[0] * 6, shape[1], 1, *[0] * 6) + struct.pack("<Q", bytes_)


def op(number=1, name=b"l1", weights=()):
    """A product of [1, 4], of layer `name`."""
    head = struct.pack("<QQq32s512s32s32s96sI6H4H", number, 1, 5, b"gemm", b"other_mm", b"", b"none", name, 0, 1, 0, 0, len(weights), 1, 0, 0, 0, 0, 0)
    body = head + b"".join(weights) + tensor(b"a", (1, 4), 16) + tensor(b"c", (1, 4), 16)
    return record(3, body.ljust((24 + len(body) + 15) // 16 * 16 - 24, b"\0") + b"\1" * 16 + b"\2" * 16)


def accept(path, version):
    """Listen, print "ready", and greet the recorder that comes. Others wait."""
    global listener
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(5)
    print("ready", flush=True)
    tap, _ = listener.accept()
    tap.sendall(message(version, HELLO))
    return tap


def receive(tap):
    """A message: its kind, rings and their bytes, and what came with it. None: the recorder hung up."""
    data, ancillary, _, _ = tap.recvmsg(4096, 4096)
    return (*struct.unpack_from("<I4xIxxxxQ", data, 8), ancillary) if data else None


def attach(rings, ring_bytes, ancillary):
    return mmap.mmap(array.array("i", ancillary[0][2][:4])[0], PAGE * (1 + rings) + rings * ring_bytes)
