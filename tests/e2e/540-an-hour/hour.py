# hour.py HOST:PORT FILE - write the capture of an hour: 1,000 exchanges of 24 prompts on 30 connections that stay open.
# The answers are what that server really says, asked once each; when they came is made up: quiet minutes, a rush, and a burst
# of 40 requests within a second.
# SPDX-License-Identifier: Apache-2.0
import json
import random
import socket
import sys

from packets import ACK, PSH, Connection, write

HOUR_NS, EXCHANGES, CONNECTIONS, START_NS = 3600 * 10**9, 1000, 30, 1_700_000_000_000_000_000
FIRST_NS, NEXT_NS = 40 * 10**6, 9 * 10**6  # to the first piece of an answer, and from piece to piece
WORDS = ["In the beginning", "And the light", "Let there be", "The king said", "A servant of", "They went up"]


def ask(server, n):
    """The bytes of request n, and those of the answer as pieces: the head, then chunk by chunk."""
    body = json.dumps({"model": "demo", "prompt": f"{WORDS[n % len(WORDS)]} {'and ' * (n // len(WORDS))}", "max_tokens": 8,
                       "temperature": 0, "stream": True, "return_token_ids": True, "ignore_eos": True}).encode()
    request = b"POST /v1/completions HTTP/1.1\r\nHost: demo\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    answer = b""
    with socket.create_connection(server) as s:
        s.sendall(request)
        while not answer.endswith(b"\r\n0\r\n\r\n"):
            piece = s.recv(65536)
            assert piece, answer
            answer += piece
    head, _, chunks = answer.partition(b"\r\n\r\n")
    pieces = [head + b"\r\n\r\n"]
    while chunks:
        size, _, _ = chunks.partition(b"\r\n")
        end = len(size) + 2 + int(size, 16) + 2
        pieces.append(chunks[:end])
        chunks = chunks[end:]
    return request, pieces


def arrivals(dice):
    """When requests come: a third anywhere, the rest mostly about the 20th minute, 40 at the 50th."""
    at = [dice.uniform(0, HOUR_NS) for _ in range(EXCHANGES // 3)]
    at += [50 * 60 * 10**9 + dice.uniform(0, 10**9) for _ in range(40)]
    while len(at) < EXCHANGES:
        t = dice.gauss(20 * 60e9, 5 * 60e9)
        if 0 <= t < HOUR_NS:
            at.append(t)
    return sorted(START_NS + int(t) for t in at)


def at(packets, t_ns):
    """Give packets that belong together a time, a microsecond apart."""
    for i, p in enumerate(packets):
        p.time_ns = t_ns + i * 1000
    return packets


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    asked = [ask((host, int(port)), n) for n in range(24)]
    dice = random.Random(20261128)
    all_packets, connections = [], []
    for n, t in enumerate(arrivals(dice)):
        request, pieces = asked[n % len(asked)]
        free = [c for c in connections if c[1] < t]
        if not free and len(connections) >= CONNECTIONS:
            t = min(c[1] for c in connections) + 1000
            free = [c for c in connections if c[1] < t]
        if not free:
            new = Connection(server=(host, int(port)), port=40000 + len(connections))
            all_packets += at(new.open(), t - 10**6)
            connections.append([new, 0])
            free = [connections[-1]]
        c = dice.choice(free)
        all_packets += at(c[0].send(True, request), t)
        for i, piece in enumerate(pieces):
            c[1] = t + FIRST_NS + i * NEXT_NS
            all_packets += at([c[0].segment(False, piece, PSH | ACK), c[0].segment(True)], c[1])
        c[1] += 10**6
    all_packets.sort(key=lambda p: p.time_ns)
    write(sys.argv[2], all_packets, form="nanoseconds")


main()
