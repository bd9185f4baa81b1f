"""peer.py SOCKET VERSION OPS NAME=N... - a tap that sends OPS ops when it is armed, and says that it dropped N more for want of NAME
(RING, WEIGHTS and so on of enum tap_count in recorder/tap/core/tap_proto.h). It answers each message with OK, and ends with its
connection. Prints "ready" when it listens.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../fakes"))
import tap_wire
from tap_wire import ARM, ATTACH, OK, PAGE

path, version, ops, drops = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), dict(d.split("=") for d in sys.argv[4:])
proto = open(os.path.join(os.path.dirname(__file__), "../../../recorder/tap/core/tap_proto.h")).read()
counts = re.findall(r"^\s*TAP_(\w+)[,\s]", re.search(r"enum tap_count \{(.*?)\n\};", proto, re.S).group(1), re.M)


def count(m, name, n):
    """Add to a counter of the first ring: two numbers each, behind its head and tail."""
    ctypes.c_uint64.from_buffer(m, PAGE + 128 + 16 * counts.index(name)).value += n


def send(m, rings):
    data = tap_wire.step() + b"".join(tap_wire.op(i) for i in range(ops))
    start = PAGE * (1 + rings)
    m[start:start + len(data)] = data
    ctypes.c_uint64.from_buffer(m, PAGE).value += len(data)
    count(m, "OPS_SENT", ops)
    for name, n in drops.items():
        count(m, "OPS_" + name, int(n))


tap = tap_wire.accept(path, version)
while True:
    received = tap_wire.receive(tap)
    if not received:
        break
    kind, rings, ring_bytes, ancillary = received
    if kind == ATTACH:
        memory = tap_wire.attach(rings, ring_bytes, ancillary), rings
    if kind == ARM:
        send(*memory)
    tap.sendall(tap_wire.message(version, OK, 1 if kind == ARM else 0))
