# traffic.py - write two.pcap: three clients that keep their connections. The third one has the ports of the first, which is closed.
# SPDX-License-Identifier: Apache-2.0
import sys

sys.path[:0] = [sys.argv[1]]
from packets import Connection, write

# (connection, prompt, ms of the request); each answer comes after 10 ms
EXCHANGES = [("a", "a1", 0), ("b", "b1", 2), ("b", "b2", 20), ("a", "a2", 22), ("a", "a3", 40), ("c", "c1", 60), ("b", "b3", 62)]
PORTS = {"a": 40001, "b": 40002, "c": 40001}
START = 1_700_000_000_000_000_000
connections, packets = {}, []


def at(ms, new):
    for p in new:
        p.time_ns = START + int(ms * 1e6)
        packets.append(p)


for name, prompt, ms in EXCHANGES:
    if name == "c":
        at(55, connections["a"].close())
    if name not in connections:
        connections[name] = Connection(port=PORTS[name], isn=(1000, 5000) if name != "c" else (900000, 700000))
        at(ms - 0.5, connections[name].open())
    at(ms, connections[name].request(prompt, max_tokens=1))
    at(ms + 10, connections[name].answer("x"))
for name in "bc":
    at(90, connections[name].close())
write("two.pcap", sorted(packets, key=lambda p: p.time_ns), form="nanoseconds")
