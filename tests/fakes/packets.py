# packets.py - captures written packet by packet, so that each oddity is visible where it is made.
# SPDX-License-Identifier: Apache-2.0
"""A Connection makes segments; the caller keeps, drops, swaps or cuts them; write() makes a file of them.

    c = Connection(port=40001)
    packets = c.open() + c.request(prompt="hello") + c.answer("world") + c.close()
    write("x.pcap", packets)
"""
import ipaddress
import json
import struct

SERVER, CLIENT = ("127.0.0.1", 8000), ("127.0.0.1", 40000)
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
ETHERNET, NULL, RAW, SLL, SLL2 = 1, 0, 101, 113, 276


class Packet:
    """One TCP segment, with what makes a packet of it."""

    def __init__(self, source, target, seq, ack, flags, data=b""):
        self.source, self.target, self.seq, self.ack, self.flags, self.data = source, target, seq, ack, flags, data
        self.time_ns = None
        self.fragment = self.vlan = self.snap = 0
        self.raw = None

    def ip(self):
        tcp = struct.pack("!HHIIBBHHH", self.source[1], self.target[1], self.seq & 0xFFFFFFFF, self.ack & 0xFFFFFFFF,
                          5 << 4, self.flags, 65535, 0, 0) + self.data
        a, b = ipaddress.ip_address(self.source[0]), ipaddress.ip_address(self.target[0])
        if a.version == 6:
            return struct.pack("!IHBB", 6 << 28, len(tcp), 6, 64) + a.packed + b.packed + tcp
        return struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 1, self.fragment, 64, 6, 0) + a.packed + b.packed + tcp

    def frame(self, link):
        if self.raw is not None:
            return self.raw
        ip = self.ip()
        kind = 0x86DD if ip[0] >> 4 == 6 else 0x0800
        if link == ETHERNET:
            tags = b"".join(struct.pack("!HH", 0x88A8 if i < self.vlan - 1 else 0x8100, 7) for i in range(self.vlan))
            return b"\2" * 12 + tags + struct.pack("!H", kind) + ip
        if link == NULL:
            return struct.pack("=I", 2 if kind == 0x0800 else 10) + ip
        if link == SLL:
            return struct.pack("!HHH8sH", 0, 1, 6, b"\2" * 8, kind) + ip
        if link == SLL2:
            return struct.pack("!HHIHBB8s", kind, 0, 1, 1, 0, 6, b"\2" * 8) + ip
        return ip


class Connection:
    def __init__(self, client=CLIENT, server=SERVER, isn=(1000, 5000), port=None):
        self.client, self.server = (client[0], port) if port else client, server
        self.seq = {True: isn[0], False: isn[1]}  # of the client, of the server

    def segment(self, from_client, data=b"", flags=ACK):
        a, b = (self.client, self.server) if from_client else (self.server, self.client)
        p = Packet(a, b, self.seq[from_client], self.seq[not from_client], flags, data)
        self.seq[from_client] = (self.seq[from_client] + len(data) + bool(flags & (SYN | FIN))) & 0xFFFFFFFF
        return p

    def open(self):
        return [self.segment(True, flags=SYN), self.segment(False, flags=SYN | ACK), self.segment(True)]

    def close(self):
        return [self.segment(True, flags=FIN | ACK), self.segment(False, flags=FIN | ACK), self.segment(True)]

    def send(self, from_client, data, size=1448):
        """Data in segments of `size` bytes, and the other side's acknowledgement."""
        return [self.segment(from_client, data[i:i + size], PSH | ACK) for i in range(0, len(data), size)] + \
               [self.segment(not from_client)]

    def request(self, prompt="hello", size=1448, path="/v1/completions", **more):
        return self.send(True, request(prompt, path, **more), size)

    def answer(self, text="world", size=1448, **more):
        return self.send(False, answer(text, **more), size)


def request(prompt="hello", path="/v1/completions", method="POST", head=b"", **more):
    body = json.dumps({"model": "m", "prompt": prompt, "max_tokens": 4, **more}).encode()
    return b"%s %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n" % (
        method.encode(), path.encode(), head, len(body)) + body


def body_of(text):
    return json.dumps({"id": "cmpl-1", "object": "text_completion", "model": "m", "choices": [
        {"index": 0, "text": text, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 2, "completion_tokens": 1}}).encode()


def answer(text="world", chunked=False, until_close=False, status=b"200 OK"):
    body = body_of(text)
    head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n" % status
    if until_close:
        return head + b"Connection: close\r\n\r\n" + body
    if chunked:
        half = len(body) // 2
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(
            b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:half], body[half:])) + b"0\r\n\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
STREAM_END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


def event(text, finish=None):
    data = b"data: " + json.dumps({"id": "cmpl-1", "object": "text_completion", "model": "m", "choices": [
        {"index": 0, "text": text, "finish_reason": finish}]}).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def write(path, packets, link=ETHERNET, form="pcap", start_ns=1_700_000_000_000_000_000, step_ns=1_000_000, snap=65535):
    """Write a capture; packets are step_ns apart where they have no time of their own.
    form: pcap, nanoseconds, pcapng"""
    out = bytearray()
    if form == "pcapng":
        out += struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
        option = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)  # if_tsresol: 10^-9
        out += struct.pack("<IIHHI", 1, 20 + len(option), link, 0, snap) + option + struct.pack("<I", 20 + len(option))
    else:
        magic = 0xA1B23C4D if form == "nanoseconds" else 0xA1B2C3D4
        out += struct.pack("<IHHiIII", magic, 2, 4, 0, 0, snap, link)
    for i, p in enumerate(packets):
        t = p.time_ns if p.time_ns is not None else start_ns + i * step_ns
        frame = p.frame(link)
        kept = frame[:p.snap or snap]
        if form == "pcapng":
            padded = kept + bytes(-len(kept) % 4)
            n = 32 + len(padded)
            out += struct.pack("<IIIIIII", 6, n, 0, t >> 32, t & 0xFFFFFFFF, len(kept), len(frame)) + padded + struct.pack("<I", n)
        else:
            unit = 1 if form == "nanoseconds" else 1000
            out += struct.pack("<IIII", t // 10**9, t % 10**9 // unit, len(kept), len(frame)) + kept
    with open(path, "wb") as f:
        f.write(out)
