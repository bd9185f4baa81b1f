# SPDX-License-Identifier: Apache-2.0
import json

import captures
from captures import case
from compress import Compressor, compressed
from packets import ACK, FIN, Connection, body_of, request, write

CODINGS = ("gzip", "deflate", "br", "zstd")
captures.USUAL += ["capture.requests.other"] + ["capture." + x for x in (  # they hang on the versions of zlib and libbrotli
    "answers.replaced", "bytes.lost", "bytes.skipped")]
START = 1_700_000_000_000_000_000


def head(coding, more=b"", status=b"200 OK", kind=b"application/json"):
    return b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Encoding: %s\r\n%s\r\n" % (status, kind, coding.encode(), more)


def in_chunks(parts):
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts if part)


def plain(coding, body, status=b"200 OK"):
    return head(coding, b"Content-Length: %d\r\n" % len(body), status) + body


def one(name, said, *options, size=1448, until_close=False, more=("uncompressed",)):
    c = Connection()
    packets = c.open() + c.request() + (said(c) if callable(said) else c.send(False, said, size))
    packets += [c.segment(False, flags=FIN | ACK)] if until_close else c.request("next", path="/health") + c.answer("another") + c.close()
    case(name, packets, *options, more=list(more))


def event(text, finish=None):
    return b"data: " + json.dumps({"id": "cmpl-1", "object": "text_completion", "model": "m", "choices": [
        {"index": 0, "text": text, "finish_reason": finish}]}).encode() + b"\n\n"


EVENTS = [event("a "), event("b "), event("c", "stop"), b"data: [DONE]\n\n"]
STREAM = dict(more=b"Transfer-Encoding: chunked\r\n", kind=b"text/event-stream")

print("-- whole answers")
for coding in CODINGS:
    body = compressed(coding, body_of("world"))
    one(coding, plain(coding, body))
    one(f"{coding}, in chunks and small packets", head(coding, b"Transfer-Encoding: chunked\r\n") + in_chunks([body[:9], body[9:]]) + b"0\r\n\r\n",
        size=7)
    one(f"{coding}, until close", head(coding) + body, until_close=True)
one("x-gzip", plain("X-GZIP", compressed("gzip", body_of("world"))))
text = body_of("world")
one("two members of gzip", plain("gzip", compressed("gzip", text[:30]) + compressed("gzip", text[30:])))
one("two frames of zstd", plain("zstd", compressed("zstd", text[:30]) + compressed("zstd", text[30:])))
one("deflate without its frame", plain("deflate", compressed("bare deflate", text)))
one("identity", plain("identity", text))
one("an error", plain("br", compressed("br", b'{"error": {"message": "too long", "code": 400}}'), b"400 no"))
one("early hints before it", b"HTTP/1.1 103 Early Hints\r\nContent-Encoding: br\r\nLink: </x>\r\n\r\n" + plain("gzip", compressed("gzip", text)))
one("an interim answer that says it, and a plain one", b"HTTP/1.1 103 Early Hints\r\nContent-Encoding: br\r\n\r\n"
    + plain("identity", text).replace(b"Content-Encoding: identity\r\n", b""))
one("no content", b"HTTP/1.1 204 No Content\r\nContent-Encoding: gzip\r\n\r\n")

print("-- streams: an event has the time of the packet that completed it")


def streamed(coding, cut):
    """Each event on its own, a second apart; with `cut` its second half comes half a second later."""
    def send(c):
        z, packets = Compressor(coding), c.send(False, head(coding, **STREAM))
        for i, part in enumerate(EVENTS):
            data = in_chunks([z.part(part) if i < 3 else z.end(part)]) + (b"0\r\n\r\n" if i == 3 else b"")
            at = len(data) // 2 if cut and i < 3 else len(data)
            for late, piece in ((0, data[:at]), (500_000_000, data[at:])):
                for p in c.send(False, piece) if piece else []:
                    p.time_ns = START + (i + 1) * 10**9 + late
                    packets.append(p)
        return packets
    return send


for coding in CODINGS:
    one(coding, streamed(coding, False), more=("events",))
    one(f"{coding}, the second halves late", streamed(coding, True), more=("events",))
    one(f"{coding}, never flushed", head(coding, **STREAM) + in_chunks([compressed(coding, b"".join(EVENTS))]) + b"0\r\n\r\n", more=("events",))

print("-- what is lost has a name")
for coding in CODINGS:
    body = compressed(coding, body_of("world" * 20))
    one(f"{coding}, damaged", plain(coding, body[:8] + bytes(255 - x for x in body[8:20]) + body[20:]))
    one(f"{coding}, ends early", plain(coding, body[:-5]))
    one(f"{coding}, and something behind it", plain(coding, body + b"and more"))
    for what in (b"\0", body_of("bomb " * 40)):
        z = Compressor(coding)
        bomb = b"".join(z.part(what * (2**18 // len(what))) for _ in range(48)) + z.end()
        one(f"{coding}, 12 MiB that repeat {len(what)} bytes", plain(coding, bomb))
z = Compressor("wide zstd")
one("zstd with a window that is too wide", plain("zstd", z.part(text) + z.end()))
for coding in ("compress", "gzip, br", "", "br\r\nContent-Encoding: gzip", "\r\n gzip"):
    one(f"of coding {coding!r}", plain(coding, b"{}"))


def with_a_loss(coding):
    def send(c):
        z, parts = Compressor(coding), []
        for part in EVENTS:
            parts.append(in_chunks([z.part(part)]))
        packets = c.send(False, head(coding, **STREAM)) + [p for part in parts for p in c.send(False, part)]
        return packets[:4] + packets[6:]
    return send


for coding in CODINGS:
    one(f"{coding}, a part is not in the capture", with_a_loss(coding))
    one(f"{coding}, the capture ends in it", lambda c, coding=coding: with_a_loss(coding)(c)[:4], until_close=True)
c = Connection()
z = Compressor("gzip")
bomb = z.part(bytes(3 << 20)) + z.end()
case("a bomb, and another answer on its connection", c.open() + c.request() + c.send(False, plain("gzip", bomb)) + c.request("next")
     + c.answer("another") + c.close())
c = Connection()
body = compressed("gzip", b'{"model": "m", "prompt": "compressed", "max_tokens": 4}')
asked = c.open() + c.send(True, b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (
    len(body), body)) + c.answer("to a compressed request")
case("a request that is compressed", asked)
case("the same, and another one", asked + c.request("next") + c.answer("another") + c.close())

print("-- keys")
packets = []
for i, coding in enumerate(CODINGS):
    key = f"canary-s-{coding}0123456789"
    sent = b"Authorization: Bearer %s\r\n" % key.encode()
    c = Connection(port=41000 + i)
    packets += c.open() + c.send(True, request("canary-t-prompt", head=sent)) + c.send(
        False, plain(coding, compressed(coding, body_of(f"canary-t-{coding}, and {key} is the key"))), 50)
    packets += c.send(True, request("canary-t-prompt")) + c.send(
        False, plain(coding, compressed(coding, b'{"error": {"message": "%s", "code": 401}}' % key.encode()), b"401 no"), 50)
    z = Compressor(coding)
    parts = [z.part(x) for x in (event(f"a {key}"), b": " + key.encode()[:10], key.encode()[10:] + b"\n", event("canary-t-end", "stop"),
                                 b"data: [DONE]\n\n")] + [z.end()]
    packets += c.send(True, request("canary-t-prompt")) + c.send(False, head(coding, **STREAM) + in_chunks(parts) + b"0\r\n\r\n", 50)
    packets += c.send(True, request("canary-t-prompt")) + c.send(  # what cannot be read is not kept
        False, plain("compress", b"canary-s-unread"))
    packets += c.send(True, request("canary-t-prompt")) + c.send(
        False, plain(coding, compressed(coding, body_of(key)))[:-9], 50) + c.close()  # it breaks off
    packets += c.close()
write("keys.pcap", packets)
