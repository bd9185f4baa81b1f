# traffic.py - write chat.pcap: a chat and two completions, packet by packet, at times that are told.
# SPDX-License-Identifier: Apache-2.0
import json
import sys

sys.path[:0] = [sys.argv[1]]
from packets import Connection, write

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
START = 1_700_000_000_000_000_000


def message(value):
    data = b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def delta(finish=None, **members):
    return message({"choices": [{"index": 0, "delta": members, "finish_reason": finish}]})


def text(s, finish=None):
    return message({"choices": [{"index": 0, "text": s, "finish_reason": finish}]})


def usage(prompt, completion):
    return message({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}})


END = message(b"[DONE]") + b"0\r\n\r\n"
# (path, [(ms after the first request, bytes)])
EXCHANGES = [
    ("/v1/chat/completions", 0, [(50, HEAD + delta(role="assistant", content="")), (100, delta(content="He")),
                                 (160, delta(content="llo wor")), (180, delta(content="ld")), (190, delta(finish="stop")),
                                 (200, usage(7, 4)), (210, END)]),
    ("/v1/completions", 400, [(440, HEAD + text("a")), (460, text("b")), (480, text("c", "length")), (482, usage(3, 3) + END)]),
    ("/v1/completions", 600, [(700, b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}")]),
]

packets, at = [], START
for path, start_ms, pieces in EXCHANGES:
    c = Connection(port=40000 + start_ms)
    new = [(start_ms, p) for p in c.open()]
    new += [(start_ms, p) for p in c.request("hello", path=path, stream=True)]
    for ms, data in pieces:
        new += [(ms, p) for p in c.send(False, data)]
    new += [(pieces[-1][0] + 1, p) for p in c.close()]
    for i, (ms, p) in enumerate(new):
        p.time_ns = START + ms * 1_000_000
        packets.append(p)
write("chat.pcap", packets, form="nanoseconds")
