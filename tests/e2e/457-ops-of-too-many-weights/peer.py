"""peer.py SOCKET COUNT VERSION - a tap that sends COUNT ops, each with a weight of another name that it does not send (recorder/tap/core/tap_proto.h).
It answers each message with OK, and ends with its connection. Prints "ready" when it listens.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import os
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../fakes"))
import tap_wire
from tap_wire import ARM, ATTACH, OK, PAGE


def op(number):
    return tap_wire.op(number, b"l%d" % number, [tap_wire.tensor(b"w", (4, 4), 0, 1)])


def send_ops(m, rings, ring_bytes):
    head, tail = (ctypes.c_uint64.from_buffer(m, PAGE + at) for at in (0, 64))
    start = PAGE * (1 + rings)
    for data in [tap_wire.step()] + [op(i) for i in range(int(sys.argv[2]))]:
        while head.value + len(data) - tail.value > ring_bytes:
            time.sleep(0.0005)
        at = head.value % ring_bytes
        n = min(len(data), ring_bytes - at)
        m[start + at:start + at + n], m[start:start + len(data) - n] = data[:n], data[n:]
        head.value += len(data)


version, generation, sender = int(sys.argv[3]), 0, None
tap = tap_wire.accept(sys.argv[1], version)
while True:
    received = tap_wire.receive(tap)
    if not received:
        break
    kind, rings, ring_bytes, ancillary = received
    if kind == ATTACH:
        where = tap_wire.attach(rings, ring_bytes, ancillary), rings, ring_bytes
    if kind == ARM:
        generation += 1
    elif sender:
        sender.join()
    tap.sendall(tap_wire.message(version, OK, generation if kind == ARM else 0))
    if kind == ARM and not sender:
        sender = threading.Thread(target=send_ops, args=where, daemon=True)
        sender.start()
