#!/usr/bin/env python3
# Write the seeds of fuzz_capture: rows of packets as tests/fakes/packets.py makes them.
# SPDX-License-Identifier: Apache-2.0
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "..", "fakes"))
from packets import (ETHERNET, FIN, ACK, NULL, RAW, SLL, SLL2, RST, STREAM_END, STREAM_HEAD, Connection,  # noqa: E402
                     answer, event, request)

LINKS = [ETHERNET, NULL, RAW, SLL, SLL2]


def seed(name, packets, link=ETHERNET):
    with open(os.path.join(here, "capture", name), "wb") as f:
        f.write(bytes([LINKS.index(link)]))
        for p in packets:
            frame = p.frame(link)
            f.write(bytes([1, len(frame) >> 8, len(frame) & 255, 0]) + frame)


def whole(c):
    return c.open() + c.request() + c.answer() + c.close()


for i, link in enumerate(LINKS):
    seed(f"link{i}", whole(Connection()), link)
seed("ipv6", whole(Connection(("::1", 40000), ("::1", 8000))))
packets = whole(Connection())
for p in packets:
    p.vlan = 2
seed("vlan", packets)
c = Connection(isn=(2**32 - 60, 2**32 - 100))
seed("backwards", c.open() + c.request(size=50)[::-1] + c.answer(size=50)[::-1] + c.close())
c = Connection()
seed("pipelined", c.open() + c.send(True, request("one") + request("two")) + c.send(False, answer("a", chunked=True) + answer("b")))
c = Connection()
seed("stream", c.open() + c.request() + c.send(False, STREAM_HEAD + event("a") + event("b", "stop") + STREAM_END, 40))
c = Connection()
packets = c.open() + c.request("one") + c.answer(size=60) + c.request("two", size=60) + c.answer()
seed("lost", packets[:6] + packets[7:10] + packets[11:])
c = Connection()
seed("reset", c.open() + c.request() + c.send(False, answer()[:60]) + [c.segment(True, flags=RST)] + whole(Connection(isn=(9, 9))))
c = Connection()
seed("until_close", c.open() + c.request() + c.answer(until_close=True) + [c.segment(False, flags=FIN | ACK)])
c = Connection()
seed("tls", c.open() + c.send(True, b"\x16\x03\x01\x00\x20" + bytes(32)) + c.close() + whole(Connection(port=40001)))
