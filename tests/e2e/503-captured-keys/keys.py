"""keys.py - captures in which servers say back what clients sent as a secret.
canary-s-NAME is a secret of a request (tests/fakes/find_canaries.py), canary-t-NAME a text that must stay.
    all.pcap   every secret place of a request, said back in every place of an answer, in every spelling
    late.pcap  the answer that has a key comes before the first request that sends it
    cut.pcap   answers, and a request, that break off within a key
    quote.pcap errors whose quote ends within a key
    words.pcap keys that are words of the fixture, of HTTP, of any text
    spoil.pcap a "key" that stands in every answer
    many.pcap  more keys than are searched for
SPDX-License-Identifier: Apache-2.0
"""
import base64
import json
import urllib.parse

from packets import ACK, FIN, Connection, body_of, request, write

PORT = iter(range(20000, 60000))


def basic(user, password):
    return b"Basic " + base64.b64encode(f"{user}:{password}".encode())


# place: what is sent, what is said back
PLACES = {
    "bearer": (b"Authorization: Bearer canary-s-bearer7\r\n", "canary-s-bearer7"),
    "blanks": (b"authorization :   Bearer \t canary-s-blanks7\r\n", "canary-s-blanks7"),
    "basic": (b"Authorization: " + basic("me", "canary-s-basic7") + b"\r\n", "canary-s-basic7"),
    "proxy": (b"Proxy-Authorization: canary-s-proxy7\r\n", "canary-s-proxy7"),
    "apikey": (b"X-Api-Key: canary-s-apikey7\r\n", "canary-s-apikey7"),
    "named": (b"X-Session-Token: canary-s-named7\r\n", "canary-s-named7"),
    "asked": (b"X-Team: canary-s-asked4of5teams\r\n", "canary-s-asked4of5teams"),  # --redact-header, and it looks like a key
    "cookie": (b"Cookie: theme=dark; id=canary-s-cookie7\r\n", "canary-s-cookie7"),
    "cookie2": (b"Cookie: a=1; id2=\"canary-s-cookietwo7\"; b=2\r\n", "canary-s-cookietwo7"),
    "quoted": (b"Authorization: Token token=\"canary-s-quoted7\", realm=\"words\"\r\n", "canary-s-quoted7"),
    "folded": (b"Authorization: Bearer\r\n  canary-s-folded7\r\n", "canary-s-folded7"),
    "early": (b"X-A: b\r\n\r\r\nX-Api-Key: canary-s-early7\r\n", "canary-s-early7"),
    "bare": (b"X-Api-Key: canary-s-bare7\n", "canary-s-bare7"),
}
UNUSUAL = {
    "signed": (b"Cookie: sid=s:canary-s-signed0123456789.c2lnbmF0dXJl; a=b\r\n", "canary-s-signed0123456789"),
    "escaped": (b"Cookie: sid=s%3Acanary-s-escaped0123456789.c2lnbmF0dXJl\r\n", "canary-s-escaped0123456789"),
    "pair": (b"X-Credentials: u:canary-s-pair7\r\n", "canary-s-pair7"),
    "json": (b'Cookie: prefs={"theme": "dark", "api_key": "canary-s-json7"}\r\n', "canary-s-json7"),
    "json2": (b"Cookie: prefs=%7B%22api_key%22%3A%22canary-s-jsontwo7%22%7D\r\n", "canary-s-jsontwo7"),
    "upstream": (b"X-Upstream: Bearer canary-s-upstream7\r\n", "canary-s-upstream7"),
    "referer": (b"Referer: http://h/x?a=b&api_key=canary-s-referer7\r\n", "canary-s-referer7"),
    "userinfo": (b"Referer: http://u:canary-s-userinfo7@h/\r\n", "canary-s-userinfo7"),
}
QUERIES = {
    "plain7": "api_key=canary-s-plain7", "scheme7": "authorization=Bearer%20canary-s-scheme7", "plus7": "a=b&authorization=Bearer+canary-s-plus7",
    "member7": "config=%7B%22api_key%22:%22canary-s-member7%22%7D", "bare8": 'config={"api_key":"canary-s-bare8"}',
    "url7": "next=http%3A%2F%2Fu%3Acanary-s-url7%40h%2F",
}
JSON = "Content-Type: application/json\r\n"


def head(status, extra, body):
    return f"HTTP/1.1 {status}\r\n{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body


def sse(lines, trailer=""):
    data = lines.encode()
    at = len(data) // 3  # a chunk ends within an event
    chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(part), extension, part) for part, extension in (
        (data[:at], b""), (data[at:], b";key=" + trailer.encode())))
    return (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
            + b"0\r\n" + (f"X-Trailer: {trailer}\r\n" if trailer else "").encode() + b"\r\n")


def event(text):
    return "data: " + json.dumps({"id": "cmpl-1", "object": "text_completion", "model": "m", "choices": [
        {"index": 0, "text": text, "finish_reason": None}]}) + "\n\n"


def spellings(key):
    raw = key.encode()
    return [key, key.upper(), urllib.parse.quote(key, safe="").replace("-", "%2D"), "".join(f"\\u{c:04x}" for c in raw), raw.hex(),
            base64.b64encode(b"user:" + raw).decode(), base64.urlsafe_b64encode(raw).decode(), key.replace("-", "&#45;")]


def answers(key):
    """What servers say, each with the key in another place."""
    yield head("200 OK", JSON, body_of(f"canary-t-text, and {key} is the key"))
    yield head("200 OK", JSON, body_of("world").replace(b'"model": "m"', b'"model": "%s"' % key.encode()))
    yield head(f"401 no {key}", JSON + f"X-Echo: you sent {key}!\r\n{key}: name\r\nX-Url: http://u:{key}@h/?a={key}\r\n", b"{}")
    yield head("401 Unauthorized", JSON, json.dumps({"error": {"message": f"Incorrect API key: {key}", "code": 401}}).encode())
    yield head("500 oops", "Content-Type: text/plain\r\n", f"Traceback: headers={{'x': '{key}'}}\n".encode())
    yield head("422 no", JSON, json.dumps({"detail": [{"input": {"headers": [["authorization", f"Bearer {key}"]]}}]}).encode())
    yield sse(event("a ") + f": {key}\n\nevent: {key}\nid: {key}\n" + event(f"canary-t-event {key}") + "data: [DONE]\n\n", key)
    yield sse(event("a ") + f'data: {{"error": {{"message": "{key}", "code": 500}}}}\n\n')
    yield head("200 OK", JSON, b"{" + key.encode())
    yield f"HTTP/9 {key}\r\n\r\n".encode()
    for spelled in spellings(key):
        yield head("400 no", JSON, b'{"error": "you sent %s"}' % spelled.encode())


def exchange(sent, said, prompt="canary-t-prompt", size=1448, query="", **more):
    c = Connection(port=next(PORT))
    return (c.open() + c.send(True, request(prompt, "/v1/completions" + query, head=sent, **more), size) + c.send(False, said, size)
            + c.close())


def with_trailer(name):
    """A request in chunks, with a secret behind them."""
    body = json.dumps({"model": "m", "prompt": "trailer", "max_tokens": 4}).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nX-Api-Key: %s\r\n\r\n"
            % (len(body), body, name))


def write_all():
    packets = []
    for name, (sent, key) in PLACES.items():
        for size in (1448, 7):  # 7: a key lies in several packets
            for said in answers(key):
                packets += exchange(sent, said, f"say {key} please", size, user=key)
    for sent, key in UNUSUAL.values():
        for said in answers(key):
            packets += exchange(sent, said, f"say {key} please")
    for name, query in QUERIES.items():
        packets += exchange(b"", head("403 no", JSON, b'{"error": "canary-s-%s is no key"}' % name.encode()), query="?" + query)
    c = Connection(port=next(PORT))
    packets += c.open() + c.send(True, with_trailer(b"canary-s-trailer7")) + c.send(False, head("400 no", JSON, b'"canary-s-trailer7"')) + c.close()
    c = Connection(port=next(PORT))  # a request that is not kept: its key is known to the next one's answer
    packets += c.open() + c.request(path="/health", method="GET", head=b"Authorization: Bearer canary-s-other7\r\n") + c.answer("ok")
    packets += c.send(True, request("a")) + c.send(False, head("200 OK", JSON, body_of("canary-s-other7"))) + c.close()
    write("all.pcap", packets)


def write_late():
    packets = exchange(b"", head("200 OK", JSON, body_of("the key of another one is canary-s-late7")), "say canary-s-late7")
    packets += exchange(b"Authorization: Bearer canary-s-late7\r\n", head("200 OK", JSON, body_of("canary-t-late")))
    write("late.pcap", packets)


def write_cut():
    packets, sent = [], b"Authorization: Bearer canary-s-cutoff0123456789\r\n"
    for said in (b"HTTP/1.1 200 OK\r\nX-Echo: canary-s-cutoff01", b"HTTP/1.1 200 OK\r\nX-Echo: canary-s-cutoff0123456789, canary-s-cutoff01",
                 b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{\"error\": \"canary-s-cutoff01",
                 b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{\"error\": \"canary-s-cutoff01",
                 b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;canary-s-cutoff01"):
        c = Connection(port=next(PORT))
        packets += c.open() + c.send(True, request("a", head=sent)) + c.send(False, said) + [c.segment(False, flags=FIN | ACK)] + c.close()
        c = Connection(port=next(PORT))  # the rest is not in the capture
        packets += c.open() + c.send(True, request("a", head=sent)) + c.send(False, said)
        c.send(False, b"23456789 and more")
        packets += c.send(False, b" canary-t-behind") + c.close()
    c = Connection(port=next(PORT))  # the key is cut, so it is not known
    asked = request("a", head=b"X-Api-Key: canary-s-headless\r\n")
    at = asked.index(b"less\r\n")
    packets += c.open() + c.send(True, asked[:at])
    c.send(True, asked[at:at + 20])
    packets += c.send(True, asked[at + 20:]) + c.send(False, head("401 no", JSON, b'"canary-s-headless"')) + c.close()
    for i in range(7):  # so many bytes of chunks and trailers are lost, and the key with them, or before it
        asked, c = with_trailer(b"canary-s-trailless"), Connection(port=next(PORT))
        at = [asked.index(b"trailer"), asked.index(b"0\r\nX-Api"), asked.index(b"X-Api"), asked.index(b"X-Api") + 8, asked.index(b"less"),
              len(asked) - 2, len(asked) - 1][i]
        packets += c.open() + c.send(True, asked[:at])
        c.send(True, asked[at:at + 6])
        packets += c.send(True, asked[at + 6:]) + c.send(False, head("401 no", JSON, b'"canary-s-trailless"')) + c.close()
    for asked in (with_trailer(b"canary-s-badchunk").replace(b"\r\n\r\n", b"\r\n\r\n-", 1),  # neither is read to its end
                  request("a", head=b"X-Long: %s\r\nX-Api-Key: canary-s-behind\r\n" % (b"x" * 70000))):
        c = Connection(port=next(PORT))
        packets += c.open() + c.send(True, asked) + c.send(False, head("401 no", JSON, b'"canary-s-badchunk canary-s-behind"')) + c.close()
    c = Connection(port=next(PORT))  # a path that is longer than what is kept of it
    packets += (c.open() + c.request(path="/v1/completions?x=" + "y" * 470 + "&api_key=canary-s-longpath0123456789")
                + c.send(False, head("401 no", JSON, b"{}")) + c.close())
    write("cut.pcap", packets)


def write_spoil():
    packets = exchange(b'X-Api-Key: "index": 0, "text": \r\n', head("200 OK", JSON, body_of("mine")))
    for i in range(5):
        packets += exchange(b"X-Api-Key: canary-s-spoil%d\r\n" % i, head("200 OK", JSON, body_of(f"canary-t-of{i}")))
    write("spoil.pcap", packets)


def write_quote():
    """The quote of a body has some 300 bytes, of a message some 600."""
    packets, key = [], "canary-s-quote" + "0123456789abcdef" * 2
    sent = b"X-Api-Key: %s\r\n" % key.encode()
    for more in range(0, 60, 5):
        said, plain = "y" * (545 + more) + key, "y" * (245 + more) + key
        error = json.dumps({"error": {"message": said, "code": 500}})
        packets += exchange(sent, head("500 no", JSON, error.encode()))
        packets += exchange(sent, head(f"500 {plain}", "Content-Type: text/plain\r\n", plain.encode()))
        packets += exchange(sent, sse(event("a ") + f"data: {error}\n\n"))
    write("quote.pcap", packets)


def write_many():
    packets = []
    for i in range(300):
        keys = [f"canary-s-many{i:03d}x{j:03d}y0123456789" for j in range(200)]
        cookies = "; ".join(f"c={key}" for key in keys)
        packets += exchange(b"Cookie: %s\r\n" % cookies.encode(), head("401 no", JSON, json.dumps(keys[-1]).encode()), "a")
    write("many.pcap", packets)


def write_words():
    """Keys that are parts of our own lines, of HTTP, of escapes, or words: all must still be read, and words stay."""
    packets = []
    for key in ('prompt_id', '","path":"', '":"captured-', "HTTP/1.1 2", "HTTP/1.1", "Content-Length", "max_tokens", "whatever", "not-needed",
                "0041bcdefgh", "00041bcd", "12345678901", "application/json", "text_completion", '"}],"usage'):
        packets += exchange(b"X-Api-Key: %s\r\n" % key.encode(), head("200 OK", JSON, body_of("canary-t-word \u00e9 whatever")),
                            "not-needed \u0001 canary-t-ask", user="A0041bcdefgh", seed=12345678901)
    packets += exchange(b"", sse(event("canary-t-stream whatever") + "data: [DONE]\n\n"), "the last")
    write("words.pcap", packets)


write_all()
write_words()
write_late()
write_cut()
write_quote()
write_spoil()
write_many()
