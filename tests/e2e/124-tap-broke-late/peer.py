"""peer.py SOCKET HOW VERSION - a tap that sends one op, is disarmed in order, and then breaks (recorder/tap/core/tap_proto.h).
HOW: ring, it says that its ring holds more than the ring has room for; gone, it hangs up; fine, it does neither.
It breaks 0.3 seconds after its answer to DISARM: while record has answers scored. Prints "ready" when it listens.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../fakes"))
import tap_wire
from tap_wire import ARM, ATTACH, DISARM, OK, PAGE

version = int(sys.argv[3])
tap = tap_wire.accept(sys.argv[1], version)
while True:
    received = tap_wire.receive(tap)
    if not received:
        break
    kind, *where = received
    if kind == ATTACH:
        rings, ring_bytes, _ = where
        m = tap_wire.attach(*where)
    tap.sendall(tap_wire.message(version, OK, 1 if kind == ARM else 0))
    head = ctypes.c_uint64.from_buffer(m, PAGE)
    if kind == ARM:
        sent = tap_wire.step() + tap_wire.op()
        m[PAGE * (1 + rings):PAGE * (1 + rings) + len(sent)] = sent
        head.value = len(sent)
    if kind == DISARM:
        time.sleep(0.3)
        if sys.argv[2] == "ring":
            head.value += 2 * ring_bytes
        if sys.argv[2] == "gone":
            break
