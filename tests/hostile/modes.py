"""modes.py - how a server can lie, drip or break, as a table: what it sends, and what must come of it.

A row is Mode(name, script, want, share). The script is what the server does after it has read the
whole request:

  bytes               send them
  times(n, bytes)     send them n times
  ever(bytes, pause)  send them until the client goes away, or until MAX_SENT bytes went out
  wait(seconds)       send nothing for so long
  CLOSE               end the connection in order
  RESET               end it by RST
  HOLD                send nothing more, and wait until the client goes away

A script that ends otherwise leaves the connection open for the next request.

`want` is what the exchange must be. KIND is the exchange's error_kind, or "kept" for an exchange
without an error; "kept 3" also names the number of tokens. Words behind a colon must stand in the
exchange's error. "|" separates outcomes that are all right.

`share`: "quick" and "long" rows run in `make check`, "big" rows move many megabytes; "slow" rows end by the time
a request may be silent, "drip" rows by the time a request may take at all.
SPDX-License-Identifier: Apache-2.0
"""
import collections
import gzip
import json
import zlib

Mode = collections.namedtuple("Mode", "name script want share")
times = lambda n, data: ("times", n, data)
ever = lambda data, pause=0.0: ("ever", data, pause)
wait = lambda seconds: ("wait", seconds)
CLOSE, RESET, HOLD = ("close",), ("reset",), ("hold",)
MAX_SENT = 400 << 20
ELSEWHERE = b"ELSEWHERE"  # the server puts HOST:PORT of a second listener here

# ---- what a sound answer is made of ---------------------------------------------------------------

WORDS = [" one", " two", " three"]


def choice(text, i, **more):
    return {"index": 0, "text": text, "token_ids": [11 + i], "logprobs": None, "finish_reason": "length" if i == 2 else None, **more}


def event(*choices, **more):
    return b"data: " + json.dumps({"id": "cmpl-1", "object": "text_completion", "model": "m", "choices": list(choices), **more}).encode() + b"\n\n"


EVENTS = [event(choice(w, i)) for i, w in enumerate(WORDS)]
USAGE = event(usage={"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5})
DONE = b"data: [DONE]\n\n"
SSE = b"".join(EVENTS) + USAGE + DONE
WHOLE = json.dumps({"id": "cmpl-1", "object": "text_completion", "model": "m",
                    "choices": [{"index": 0, "text": "".join(WORDS), "token_ids": [11, 12, 13], "finish_reason": "length"}],
                    "usage": {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}}).encode()


def head(status="200 OK", kind="text/event-stream", *more):
    return ("HTTP/1.1 %s\r\nContent-Type: %s\r\n" % (status, kind) + "".join(m + "\r\n" for m in more) + "\r\n").encode()


def sized(body, status="200 OK", kind="text/event-stream", *more):
    return head(status, kind, "Content-Length: %d" % len(body), *more) + body


def piece(data, more=b""):
    return b"%x%s\r\n%s\r\n" % (len(data), more, data)


CHUNKED = head("200 OK", "text/event-stream", "Transfer-Encoding: chunked")
LAST = b"0\r\n\r\n"
sse = lambda body: [CHUNKED + piece(body) + LAST]
plain = lambda body: [sized(body, kind="application/json")]
GOOD = sse(SSE)


LONG = WHOLE.replace(b" two", b"HERE")


def filled(body, what, mib, status="200 OK", kind="application/json"):
    """A body of mib MiB: HERE in it stands for `what` again and again. It is sent as it is made."""
    n = (mib << 20) // (len(what) * 1024)
    before, after = body.split(b"HERE")
    return [head(status, kind, "Content-Length: %d" % (len(before) + len(after) + n * 1024 * len(what))) + before, times(n, what * 1024), after]


def sse_of(*objects, end=DONE):
    """A stream of these JSON texts."""
    return sse(b"".join(b"data: " + (o if isinstance(o, bytes) else json.dumps(o).encode()) + b"\n\n" for o in objects) + end)


def completion(**choice_members):
    return {"choices": [{"index": 0, "text": " one", "finish_reason": "length", **choice_members}]}


MODES = []


def row(name, script, want, share="quick"):
    MODES.append(Mode(name, script, want, share))


# ---- the connection -------------------------------------------------------------------------------
row("silent", [HOLD], "timeout: no byte for | timeout: no whole answer within", "slow")
row("close-at-once", [CLOSE], "cut: closed the connection without an answer")
row("reset-at-once", [RESET], "cut: connection")
row("status-then-silent", [b"HTTP/1.1 200 OK\r\n", HOLD], "timeout: no byte for | timeout: no whole answer within", "slow")
row("head-then-silent", [CHUNKED, HOLD], "timeout: no byte for | timeout: no whole answer within", "slow")
row("half-then-silent", [CHUNKED + piece(EVENTS[0]), HOLD], "timeout: no byte for | timeout: no whole answer within", "slow")
row("all-but-the-last-chunk", [CHUNKED + piece(SSE), HOLD], "timeout: no byte for | timeout: no whole answer within", "slow")
row("drip-status", [ever(b"H", 0.05)], "parse: does not answer in HTTP", "drip")
row("drip-header", [b"HTTP/1.1 200 OK\r\nX: ", ever(b"y", 0.05)], "timeout: no whole answer | timeout: no byte for | timeout: only comments", "drip")
row("drip-headers", [b"HTTP/1.1 200 OK\r\n", ever(b"X: y\r\n", 0.05)], "timeout: no whole answer | timeout: no byte for | timeout: only comments", "drip")
row("drip-interim", [ever(b"HTTP/1.1 102 Processing\r\n\r\n", 0.05)], "timeout: no whole answer", "drip")
row("drip-body", [CHUNKED, ever(piece(b"x"), 0.05)], "timeout: no whole answer | timeout: no byte for | timeout: only comments", "drip")
row("drip-chunk-size", [CHUNKED, ever(b"0", 0.05)], "cut: | timeout:", "drip")
row("drip-comments", [CHUNKED, ever(piece(b": ping\n\n"), 0.05)], "timeout: only comments | timeout: no whole answer", "drip")
row("drip-empty-events", [CHUNKED, ever(piece(event()), 0.05)], "timeout: no whole answer | timeout: no byte for | timeout: only comments", "drip")
row("drip-blank-lines", [CHUNKED, ever(piece(b"\n"), 0.05)], "timeout: no whole answer | timeout: no byte for | timeout: only comments", "drip")
row("drip-trailers", [CHUNKED + piece(SSE) + b"0\r\n", ever(b"X: y\r\n", 0.05)], "timeout: no whole answer | timeout: no byte for | timeout: only comments", "drip")

# ---- the status line ------------------------------------------------------------------------------
row("http-09", [b"hello, I am a mail server\r\n", CLOSE], "parse: does not answer in HTTP")
row("http-09-empty-line", [b"\r\n\r\nhello", CLOSE], "parse: does not answer in HTTP")
row("http2-preface", [b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80", CLOSE], "parse: does not answer in HTTP")
row("http2-status", [b"HTTP/2 200\r\nContent-Type: text/event-stream\r\n\r\n" + SSE, CLOSE], "parse: the answer is no HTTP/1.1")
row("http3-status", [b"HTTP/3.7 200 OK\r\n\r\n" + SSE, CLOSE], "parse: does not answer in HTTP")
row("tls-alert", [b"\x15\x03\x03\x00\x02\x02\x28", CLOSE], "parse: does not answer in HTTP")
row("tls-hello", [b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03" + bytes(range(116)), CLOSE], "parse: does not answer in HTTP")
row("status-word", [b"HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n", CLOSE], "parse: does not answer in HTTP")
row("status-five-digits", [b"HTTP/1.1 99999 OK\r\nContent-Length: 0\r\n\r\n", CLOSE], "parse: does not answer in HTTP")
row("status-negative", [b"HTTP/1.1 -200 OK\r\nContent-Length: 0\r\n\r\n", CLOSE], "parse: does not answer in HTTP")
row("status-zero", [b"HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n", CLOSE], "parse: does not answer in HTTP")
row("status-600", [sized(SSE, "600 Odd")], "http: HTTP 600")
row("status-999", [sized(SSE, "999 Odd")], "http: HTTP 999")
row("status-without-reason", [b"HTTP/1.1 200\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(SSE) + SSE], "kept 3")
row("status-with-nul", [b"HTTP/1.1 200 O\0K\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(SSE) + SSE, CLOSE], "parse: does not answer in HTTP")
row("status-of-a-mebibyte", [b"HTTP/1.1 200 ", times(1 << 10, b"a" * 1024), b"\r\n\r\n", CLOSE], "cut: a header line is longer")
row("status-http-10", [b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + SSE, CLOSE], "kept 3")
row("status-after-blank-lines", [b"\r\n\r\n" + sized(SSE), CLOSE], "parse: does not answer in HTTP")
row("status-icy", [b"ICY 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + SSE, CLOSE], "parse: does not answer in HTTP")

# ---- headers --------------------------------------------------------------------------------------
row("header-of-a-mebibyte", [b"HTTP/1.1 200 OK\r\nX: ", times(1 << 10, b"a" * 1024), b"\r\nContent-Length: 0\r\n\r\n"], "cut: a header line is longer")
row("header-without-end", [b"HTTP/1.1 200 OK\r\nX: ", ever(b"a" * 65536)], "cut: a header line is longer", "big")
row("headers-without-end", [b"HTTP/1.1 200 OK\r\n", ever(b"X: %s\r\n" % (b"a" * 80) * 500)], "parse: too many headers | cut: the headers of the answer are longer than 1 MiB", "big")
row("headers-5000", [b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(5000)) + sized(SSE)[17:]], "parse: too many headers")
row("header-folded", [sized(SSE, "200 OK", "text/event-stream", "X-Long: a\r\n b\r\n\tc")], "kept 3")
row("header-type-folded", [b"HTTP/1.1 200 OK\r\nContent-Type:\r\n text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(SSE) + SSE], "kept 3")
row("header-nul", [b"HTTP/1.1 200 OK\r\nX: a\0b\r\n" + sized(SSE)[17:], CLOSE], "parse: does not answer in HTTP")
row("header-without-colon", [b"HTTP/1.1 200 OK\r\nnonsense\r\n" + sized(SSE)[17:]], "parse: does not answer in HTTP")
row("header-lf-only", [sized(SSE).replace(b"\r\n", b"\n")], "kept 3")
row("header-escape-codes", [sized(SSE, "200 OK", "text/event-stream", "X: \x1b[2J\x1b[1mverdict: pass")], "kept 3")
row("header-cookies", [sized(SSE, "200 OK", *["text/event-stream"] + ["Set-Cookie: a%d=%s" % (i, "b" * 100) for i in range(100)])], "kept 3")

# ---- lengths --------------------------------------------------------------------------------------
length = lambda value, body=SSE: head("200 OK", "text/event-stream", "Content-Length: " + value) + body
row("length-too-long", [length(str(len(SSE) + 50)), CLOSE], "cut: ended in the middle")
row("length-too-short", [length(str(len(SSE) - 20))], "cut 3: the stream ended within an event")
row("length-zero", [length("0")], "parse: without one event")
row("length-negative", [length("-5"), CLOSE], "parse: Content-Length")
row("length-huge", [length("9223372036854775807"), CLOSE], "cut: ended in the middle")
row("length-overflow", [length("9" * 30), CLOSE], "cut: | parse: Content-Length")
row("length-word", [length("abc"), CLOSE], "parse: Content-Length")
row("length-with-tail", [length("%d;q=1" % len(SSE)), CLOSE], "parse: Content-Length is no number")
row("length-plus", [length("+%d" % len(SSE)), CLOSE], "parse: Content-Length is no number")
row("length-hexadecimal", [length("0x%x" % len(SSE)), CLOSE], "parse: Content-Length is no number")
row("length-empty", [length(""), CLOSE], "parse: Content-Length")
row("length-list", [length("%d, %d" % (len(SSE), len(SSE))), CLOSE], "kept 3")
row("length-twice-equal", [head("200 OK", "text/event-stream", *["Content-Length: %d" % len(SSE)] * 2) + SSE, CLOSE], "kept 3")
row("length-twice-different", [head("200 OK", "text/event-stream", "Content-Length: %d" % len(SSE), "Content-Length: %d" % (len(SSE) - 30)) + SSE, CLOSE], "parse: Content-Length is there twice")
row("length-and-chunked", [head("200 OK", "text/event-stream", "Content-Length: 5", "Transfer-Encoding: chunked") + piece(SSE) + LAST], "kept 3")
row("length-list-different", [length("%d, 700" % len(SSE)), CLOSE], "parse: Content-Length | cut:")
row("length-without", [head() + SSE, CLOSE], "kept 3")
row("length-without-reset", [head() + SSE, RESET], "cut: ended in the middle")

# ---- interim answers, other statuses --------------------------------------------------------------
row("interim-100", [b"HTTP/1.1 100 Continue\r\n\r\n" + sized(SSE)], "kept 3")
row("interim-102-103", [b"HTTP/1.1 102 Processing\r\nX: y\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + sized(SSE)], "kept 3")
row("interim-1000", [times(1000, b"HTTP/1.1 102 Processing\r\nX: y\r\n\r\n"), sized(SSE)], "kept 3")
row("interim-without-end", [ever(b"HTTP/1.1 102 Processing\r\nX: y\r\n\r\n" * 1000)], "parse: too many headers | cut: the headers of the answer are longer than 1 MiB", "big")
row("interim-with-length", [b"HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\n" + sized(SSE)], "kept 3")
row("interim-199-only", [b"HTTP/1.1 199 Odd\r\n\r\n", CLOSE], "cut: closed the connection without an answer")
row("upgrade-101", [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x05hello", CLOSE], "http: HTTP 101: the server changes to another protocol")
row("upgrade-h2c", [b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", CLOSE], "http: HTTP 101")
row("status-204-with-body", [sized(SSE, "204 No Content"), CLOSE], "http: HTTP 204: no body")
row("status-205", [sized(b"", "205 Reset Content")], "http: HTTP 205: no body")
row("status-206", [sized(SSE, "206 Partial Content", "text/event-stream", "Content-Range: bytes 0-9/10")], "http 3: HTTP 206: the server sent a part of the answer")
for code, words in (201, "Created"), (202, "Accepted"), (203, "Non-Authoritative Information"), (207, "Multi-Status"), (226, "IM Used"), (299, "Odd"):
    row("status-%d" % code, [sized(SSE, "%d %s" % (code, words))], "http 3: HTTP %d: an answer has status 200" % code)
row("status-201-whole", [sized(WHOLE, "201 Created", "application/json")], "http 3: HTTP 201")
row("type-html", [sized(WHOLE, kind="text/html; charset=utf-8")], 'parse 3: of type "text/html')
row("type-html-page", [sized(b"<html><body>Welcome</body></html>", kind="text/html")], 'parse: of type "text/html"')
row("type-html-of-events", [sized(SSE, kind="text/html")], 'parse 3: of type "text/html"')
row("type-plain", [sized(WHOLE, kind="text/plain")], 'parse 3: of type "text/plain"')
row("type-octets", [sized(SSE, kind="application/octet-stream")], "parse 3: of type")
row("type-none", [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(WHOLE) + WHOLE], "kept 3")
row("type-none-of-events", [b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(SSE) + SSE], "kept 3")
row("type-json-charset", [sized(WHOLE, kind="Application/JSON;charset=utf-8")], "kept 3")
row("type-problem-json", [sized(WHOLE, kind="application/vnd.api+json")], "kept 3")
row("type-of-escapes", [sized(WHOLE, kind="text/\x1b[2Jhtml")], "parse 3: of type")
row("type-nearly", [sized(WHOLE, kind="application/jsonp")], "parse 3: of type")
row("status-304-with-body", [sized(SSE, "304 Not Modified"), CLOSE], "http: HTTP 304")
for code in 301, 302, 303, 307, 308:
    row("redirect-%d" % code, [sized(b"", "%d Moved" % code, "text/plain", "Location: http://ELSEWHERE/v1/completions")], "http: HTTP %d: redirected to http://" % code)
row("redirect-without-place", [sized(b"", "302 Moved")], "http: redirected to nowhere")
row("redirect-to-a-file", [sized(b"", "302 Moved", "text/plain", "Location: file:///etc/passwd")], "http: redirected to file:///etc/passwd")
row("redirect-to-itself", [sized(b"", "307 Moved", "text/plain", "Location: /v1/completions")], "http: redirected to /v1/completions")
row("redirect-of-a-mebibyte", [sized(b"", "302 Moved", "text/plain", "Location: http://" + "a" * (60 << 10))], "http: redirected to http://aaaa")
row("status-401", [sized(b'{"error":"no key"}', "401 Unauthorized", "application/json", 'WWW-Authenticate: Basic realm="x"')], "http: HTTP 401: no key")
row("status-407", [sized(b"", "407 Proxy Authentication Required", "text/plain", "Proxy-Authenticate: NTLM")], "http: HTTP 407")
row("status-429", [sized(b'{"error":{"message":"slow down"}}', "429 Too Many", "application/json", "Retry-After: 3600")], "http: HTTP 429: slow down")
row("status-500-large", filled(b"HERE", b"x", 8, "500 Oh", "text/plain"), "http: HTTP 500: xxxx", "big")
row("status-500-escapes", [sized(b"\x1b[2J::error::forged\nverdict: pass\x9b", "500 Oh", "text/plain")], "http: HTTP 500")
row("status-500-cut", [head("500 Oh", "text/plain", "Content-Length: 99") + b"the reason", CLOSE], "http: HTTP 500: the reason")

# ---- chunks ---------------------------------------------------------------------------------------
row("chunk-word", [CHUNKED + b"xyz\r\n" + SSE, CLOSE], "parse: the size of a chunk is no number")
row("chunk-huge", [CHUNKED + b"FFFFFFFFFFFFFFFF\r\n" + SSE, CLOSE], "parse: the size of a chunk is no number")
row("chunk-overflow", [CHUNKED + b"F" * 40 + b"\r\n" + SSE, CLOSE], "parse: the size of a chunk is no number")
row("chunk-negative", [CHUNKED + b"-5\r\n" + SSE, CLOSE], "parse: the size of a chunk is no number")
row("chunk-plus", [CHUNKED + b"+5\r\n" + SSE, CLOSE], "parse: the size of a chunk is no number")
row("chunk-0x", [CHUNKED + b"0x%x\r\n" % len(SSE) + SSE + b"\r\n" + LAST, CLOSE], "parse: the size of a chunk is no number")
row("chunk-without-size", [CHUNKED + b"\r\n" + SSE, CLOSE], "parse: the size of a chunk is no number")
row("chunk-leading-zeros", [CHUNKED + b"00000000%x\r\n" % len(SSE) + SSE + b"\r\n" + LAST], "kept 3")
row("chunk-many-zeros", [CHUNKED + b"0" * 4000 + b"%x\r\n" % len(SSE) + SSE + b"\r\n" + LAST, CLOSE], "cut: ")
row("chunk-upper-case", [CHUNKED + b"%X\r\n" % len(SSE) + SSE + b"\r\n" + LAST], "kept 3")
row("chunk-extension", [CHUNKED + piece(SSE, b";name=value") + LAST], "kept 3")
row("chunk-extension-2-mib", [CHUNKED + b"%x;" % len(SSE), times(2 << 10, b"e" * 1024), b"\r\n" + SSE + b"\r\n" + LAST], "parse: the line of a chunk", "big")
row("chunk-extension-without-end", [CHUNKED + b"5;", ever(b"e" * 65536)], "parse: the line of a chunk", "big")
row("chunk-extension-each", [CHUNKED] + [piece(bytes([c]), b";x=" + b"y" * 1000) for c in SSE] + [LAST], "kept 3")
row("chunk-no-line-end", [CHUNKED + b"%x\r\n" % len(SSE) + SSE + b"5\r\n" + LAST, CLOSE], "parse: a chunk does not end where it should")
row("chunk-lf-only", [CHUNKED + b"%x\n" % len(SSE) + SSE + b"\n0\n\n"], "kept 3")
row("chunk-cut", [CHUNKED + piece(SSE)[:-40], CLOSE], "cut: ended in the middle")
row("chunk-no-last", [CHUNKED + piece(SSE), CLOSE], "cut: ended in the middle")
row("chunk-each-byte", [CHUNKED] + [piece(bytes([c])) for c in SSE] + [LAST], "kept 3")
row("chunk-each-byte-of-framing", [b for b in map(lambda c: bytes([c]), CHUNKED + piece(SSE) + LAST)], "kept 3")
row("chunk-trailers", [CHUNKED + piece(SSE) + b"0\r\nX-Sum: 1\r\nContent-Length: 3\r\n\r\n"], "kept 3")
row("chunk-trailers-without-end", [CHUNKED + piece(SSE) + b"0\r\n", ever(b"X: %s\r\n" % (b"a" * 80) * 500)], "cut: longer than 256 MiB", "big")
row("chunk-trailer-of-a-mebibyte", [CHUNKED + piece(SSE) + b"0\r\nX: ", times(1 << 10, b"a" * 1024), b"\r\n\r\n"], "parse: a trailer is longer than 64 KiB | cut: a trailer is longer than libcurl takes", "big")
row("coding-gzip-chunked", [head("200 OK", "text/event-stream", "Transfer-Encoding: gzip, chunked") + piece(gzip.compress(SSE)) + LAST, CLOSE], "parse: coded in a way")
row("coding-unknown", [head("200 OK", "text/event-stream", "Transfer-Encoding: magic") + SSE, CLOSE], "parse: coded in a way | parse: encoded in a way")
row("coding-identity", [head("200 OK", "text/event-stream", "Transfer-Encoding: identity") + SSE, CLOSE], "kept 3")
row("coding-chunked-twice", [head("200 OK", "text/event-stream", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + piece(SSE) + LAST, CLOSE], "kept 3 | cut: | parse:")

# ---- compressed, though nothing was asked for ------------------------------------------------------
row("gzip-unasked", [sized(gzip.compress(SSE), "200 OK", "text/event-stream", "Content-Encoding: gzip")], "parse: compressed (gzip)")
row("gzip-bomb", [sized(gzip.compress(b"\0" * (64 << 20)), "200 OK", "application/json", "Content-Encoding: gzip")], "parse: compressed (gzip)", "big")
row("gzip-twice", [sized(gzip.compress(gzip.compress(SSE)), "200 OK", "text/event-stream", "Content-Encoding: gzip, gzip")], "parse: compressed")
row("deflate", [sized(zlib.compress(WHOLE), "200 OK", "application/json", "Content-Encoding: deflate")], "parse: compressed (deflate)")
row("brotli-that-is-none", [sized(WHOLE, "200 OK", "application/json", "Content-Encoding: br")], "parse: compressed (br)")
row("encoding-identity", [sized(WHOLE, "200 OK", "application/json", "Content-Encoding: identity")], "kept 3")
row("gzip-without-a-header", [sized(gzip.compress(WHOLE), "200 OK", "application/json")], "parse: no JSON")

# ---- bodies ---------------------------------------------------------------------------------------
row("body-whole", plain(WHOLE), "kept 3")
row("body-empty", plain(b""), "parse: it is empty")
row("body-html", plain(b"<html>hello</html>"), "parse: no JSON")
row("body-array", plain(b"[1,2]"), "parse: no object")
row("body-null", plain(b"null"), "parse: no object")
row("body-other-object", plain(b'{"a":1}'), "parse: neither choices nor content")
row("body-two-documents", plain(WHOLE + b"\n" + WHOLE), "parse: no JSON")
row("body-cut-json", plain(WHOLE[:-30]), "parse: no JSON")
row("body-nul", plain(WHOLE.replace(b"cmpl-1", b"cmpl\x001")), "kept 3")
row("body-nul-outside", plain(b"\0" + WHOLE), "parse: NUL")
row("body-not-utf8", plain(WHOLE.replace(b" two", b" \xff\xfe")), "kept 3")
row("body-surrogates", plain(WHOLE.replace(b" two", b" \\ud800\\udc")), "parse: no JSON")
row("body-bom", plain(b"\xef\xbb\xbf" + WHOLE), "kept 3")
row("body-utf16", plain(WHOLE.decode().encode("utf-16")), "parse: no JSON")
row("body-deep", plain(b"[" * 100000 + b"]" * 100000), "parse: nested deeper")
row("body-deep-objects", plain(b'{"a":' * 100000 + b"1" + b"}" * 100000), "parse: nested deeper")
row("body-deep-unclosed", plain(b"[" * 100000), "parse: nested deeper")
row("body-equal-keys", plain(WHOLE.replace(b'"model"', b'"choices": [], "choices"')), "parse: no choice 0")
row("body-long-key", plain(b'{"%s":1,"choices":[]}' % (b"k" * (1 << 20))), "parse: no choice 0")
row("body-error-200", plain(b'{"error":{"message":"out of memory"}}'), "stream: out of memory")
row("body-error-deep", plain(b'{"error":' + b"[" * 150 + b"]" * 150 + b"}"), "stream:")
row("body-40-mib", filled(LONG, b"x", 40), "kept 3", "big")
row("body-120-mib", filled(LONG, b"x", 120), "parse: longer than 64 MiB", "big")
row("body-120-mib-of-brackets", filled(b"[0HERE]", b",0", 120), "parse: longer than 64 MiB", "big")
row("body-50-mib-of-brackets", filled(b"[0HERE]", b",[]", 48), "parse: JSON values", "big")
row("body-30-mib-of-ids", filled(b'{"choices":[{"index":0,"text":"x","finish_reason":"stop","token_ids":[1HERE]}]}', b",1", 30), "parse: JSON values", "big")
row("body-without-end", [head("200 OK", "application/json"), ever(b" " * 65536)], "parse: longer than 64 MiB", "big")
row("body-control-characters", filled(LONG, b"\\u0001\\u0001", 42), "kept 3", "big")
row("body-23-mib-of-controls", filled(LONG, b"\x01", 23), "parse: takes more than 128 MiB as JSON", "long")
row("body-80-mib-of-brackets", filled(b"[0HERE]", b",0", 80), "parse: longer than 64 MiB", "long")
row("body-48-mib-of-controls", filled(LONG, b"\x01", 48), "parse: takes more than 128 MiB as JSON", "big")

# ---- streams --------------------------------------------------------------------------------------
row("sse-cr-only", sse(SSE.replace(b"\n", b"\r")), "kept 3")
row("sse-crlf", sse(SSE.replace(b"\n", b"\r\n")), "kept 3")
row("sse-mixed-ends", sse(SSE.replace(b"\n\n", b"\r\r\n", 1)), "kept 3")
row("sse-bom", sse(b"\xef\xbb\xbf" + SSE), "kept 3")
row("sse-fields", sse(b"event: message\nid: 7\nretry: 1\nother: x\n: note\n" + SSE), "kept 3")
row("sse-no-blank-after-colon", sse(SSE.replace(b"data: ", b"data:")), "kept 3")
row("sse-no-last-line-end", sse(SSE[:-2]), "kept 3")
row("sse-no-last-blank-line", sse(SSE[:-1]), "kept 3")
row("sse-no-done", sse(SSE[:-len(DONE)]), "cut 3: but without [DONE], with which other answers of this server end")
row("sse-no-done-no-usage", sse(b"".join(EVENTS)), "cut 3: but without [DONE]")
row("sse-no-done-half-a-line", sse(SSE[:-5]), "cut 3: the stream ended within an event")
row("sse-no-done-no-reason", sse(EVENTS[0] + EVENTS[1]), "cut: without an end mark")
row("sse-done-then-more", sse(SSE + EVENTS[0] * 50), "kept 3")
row("sse-done-first", sse(DONE + SSE), "parse: without one event")
row("sse-done-twice", sse(SSE + DONE), "kept 3")
row("sse-done-only", sse(DONE), "parse: without one event")
row("sse-nothing", sse(b""), "parse: without one event")
row("sse-comments-only", sse(b": x\n\n" * 1000), "parse: without one event")
row("sse-data-empty", sse(b"data:\n\n" + SSE), "parse: it is empty")
row("sse-data-two-lines", sse(SSE.replace(b', "object"', b',\ndata: "object"')), "kept 3")
row("sse-nul", sse(SSE.replace(b"cmpl-1", b"cm\0l-1")), "kept 3")
row("sse-not-utf8", sse(SSE.replace(b" two", b" \xff\xfe")), "kept 3")
row("sse-no-json", sse(EVENTS[0] + b"data: {nonsense\n\n" + EVENTS[2] + DONE), "parse: no JSON")
row("sse-array", sse(b"data: [1,2,3]\n\n" + DONE), "parse: no object")
row("sse-number", sse(b"data: 1\n\n" + DONE), "parse: no object")
row("sse-deep", sse(b"data: " + b"[" * 100000 + b"]" * 100000 + b"\n\n" + SSE), "parse: nested deeper")
row("sse-deep-in-answer", sse(b'data: {"choices":' + b'{"choices":' * 5000 + b"[]" + b"}" * 5001 + b"\n\n" + SSE), "parse: nested deeper")
row("sse-error-event", sse(EVENTS[0] + b'data: {"error":{"message":"engine died"}}\n\n' + DONE), "stream: engine died")
row("sse-error-line", sse(EVENTS[0] + b'error: {"message":"engine died"}\n\n'), "stream: engine died")
row("sse-as-text-plain", [sized(SSE, kind="text/plain")], "kept 3")
row("sse-as-json", [sized(SSE, kind="application/json")], "kept 3")
row("sse-type-with-charset", [sized(SSE, kind="TEXT/Event-Stream; charset=utf-8")], "kept 3")
row("sse-endless-line", [CHUNKED, piece(b"data: "), ever(piece(b"a" * 65536))], "parse: an event is longer than 16 MiB", "big")
row("sse-line-20-mib", [CHUNKED + piece(b'data: {"choices":[{"index":0,"text":"'), times(20, piece(b"a" * (1 << 20))), piece(b'"}]}\n\n' + SSE) + LAST], "parse: longer than 16 MiB", "big")
row("sse-events-without-end", [CHUNKED, ever(piece(EVENTS[0]) * 300)], "cut: longer than 256 MiB", "big")
row("sse-blank-lines-100000", sse(b"\n" * 100000 + SSE), "kept 3")

# ---- what an answer says ---------------------------------------------------------------------------
row("usage-negative", sse(b"".join(EVENTS) + event(usage={"prompt_tokens": -7, "completion_tokens": -3}) + DONE), "kept 3")
row("usage-1e308", sse(b"".join(EVENTS) + event(usage={"prompt_tokens": 1e308, "completion_tokens": 1e308}) + DONE), "kept 3")
row("usage-beyond-64-bit", sse(b"".join(EVENTS) + USAGE.replace(b'"completion_tokens": 3', b'"completion_tokens": 99999999999999999999999') + DONE), "kept 3")
row("usage-below-64-bit", sse(b"".join(EVENTS) + event(usage={"prompt_tokens": -9.25e18, "completion_tokens": -9.25e18}) + DONE), "kept 3")
row("usage-words", sse(b"".join(EVENTS) + event(usage={"prompt_tokens": "many", "completion_tokens": [3]}) + DONE), "kept 3")
row("usage-array", sse(b"".join(EVENTS) + event(usage=[1, 2]) + DONE), "kept 3")
row("usage-other-count", sse(b"".join(EVENTS) + event(usage={"completion_tokens": 1000000}) + DONE), "kept 3")
row("ids-out-of-range", sse_of(completion(token_ids=[-5]), completion(token_ids=[2 ** 31]), completion(token_ids=[2 ** 63])), "kept 3")
row("ids-odd", sse_of(b'{"choices":[{"index":0,"text":"x","token_ids":[1e308,1.5,"7",null,[1],{}],"finish_reason":"stop"}]}'), "kept 6")
row("ids-nan", sse_of(b'{"choices":[{"index":0,"text":"x","token_ids":[NaN,Infinity,-Infinity],"finish_reason":"stop"}]}'), "kept 3")
row("ids-object", sse_of(completion(token_ids={"0": 1})), "kept 1")
row("ids-more-than-logprobs", sse_of(completion(token_ids=[1, 2, 3], logprobs={"tokens": ["a"], "token_logprobs": [-1], "top_logprobs": [{}]})), "kept 3")
row("logprobs-nan", sse_of(b'{"choices":[{"index":0,"text":"x","finish_reason":"stop","token_ids":[1],"logprobs":{"tokens":["x"],"token_logprobs":[NaN],"top_logprobs":[{"x":NaN}]}}]}'), "kept 1")
row("logprobs-infinite", sse_of(b'{"choices":[{"index":0,"text":"x","finish_reason":"stop","token_ids":[1],"logprobs":{"tokens":["x"],"token_logprobs":[1e400],"top_logprobs":[{"x":-1e400}]}}]}'), "kept 1")
row("logprobs-odd-shapes", sse_of(completion(logprobs=[1, 2]), completion(logprobs="x"), completion(logprobs={"content": {}}), completion(logprobs={"tokens": [None, 5], "token_logprobs": ["a", {}], "top_logprobs": [1, [2]]})), "kept")
row("logprobs-10000-alternatives", sse_of(completion(token_ids=[1], logprobs={"tokens": ["x"], "token_logprobs": [-1], "top_logprobs": [{"t%d" % i: -i for i in range(10000)}]})), "kept 1")
row("choices-twice", sse_of({"choices": [choice(" one", 0), choice(" one", 0)]}, {"choices": [choice(" two", 2)]}), "parse: choice 0 twice")
row("choices-other-index", sse_of({"choices": [choice(" one", 0, index=1)]}), "parse: no choice 0")
row("choices-index-odd", sse_of({"choices": [choice("a", 2, index=-1), choice("b", 2, index=2 ** 62), choice("c", 2, index="x"), choice("d", 2, index=1e308)]}), "parse: choice 0 twice")
row("choices-reversed", sse_of({"choices": [choice("b", 1, index=1), choice("a", 2, index=0)]}), "kept 1")
row("choices-50000", sse_of({"choices": [{"index": i, "text": "x"} for i in range(1, 50000)]}, completion()), "kept 1")
row("choices-object", sse_of({"choices": {"index": 0, "text": "x"}}), "parse: without one event")
row("choices-of-nothing", sse_of({"choices": [None, 1, "x", []]}), "parse: no choice 0")
row("choices-deep-text", sse_of(completion(text={"a": [1]}), completion(text=None), completion(text=5)), "kept")
row("text-after-the-end", sse_of(completion(), completion(finish_reason=None)), "kept 2")
row("finish-reason-odd", sse_of(completion(finish_reason=5), completion(finish_reason={"a": 1})), "kept")
row("delta-odd", sse_of({"choices": [{"index": 0, "delta": [1], "finish_reason": "stop"}]}, {"choices": [{"index": 0, "delta": "x"}]}), "kept")
row("tools-odd", sse_of({"choices": [{"index": 0, "delta": {"tool_calls": [None, 1, {"function": []}]}, "finish_reason": "stop"}]}), "kept")
row("prompt-ids-odd", sse_of({"choices": [choice(" x", 2, prompt_token_ids=[1, "x", -1, 2 ** 40])]}), "kept 1")
row("other-dialect-llamacpp", sse_of({"content": " x", "tokens": [5], "stop": True, "stop_type": "limit", "tokens_predicted": 1, "tokens_evaluated": 2}, end=b""), "kept 1")
row("llamacpp-count-huge", sse_of({"content": " x", "tokens": [5], "stop": True, "tokens_predicted": 2 ** 62, "tokens_evaluated": -1}, end=b""), "kept 1")
row("sglang-counts", sse_of({"text": "x", "output_ids": [1, 2], "meta_info": {"completion_tokens": -9, "finish_reason": {"type": "stop"}}}, {"text": "xy", "output_ids": [1], "meta_info": {"completion_tokens": 2 ** 62, "finish_reason": 5}}), "kept")

# ---- more than one answer --------------------------------------------------------------------------
row("answer-twice", [sized(SSE) * 2], "kept 3")
# The second answer comes when the connection is idle, and the client gives it up. If another request
# is sent there in between, it is taken for that one's answer: HTTP/1.1 cannot tell.
LATE = " OLD"
row("answer-twice-later", [sized(SSE), wait(0.02), sized(SSE.replace(b" one", LATE.encode()))], "kept 3")
row("answer-then-reset", [sized(SSE), RESET], "kept 3 | cut:")
row("answer-then-garbage", [sized(SSE) + b"\0\xff garbage" * 1000], "kept 3")
row("answer-early", ["early", sized(SSE)], "kept 3")
row("answer-early-and-close", ["early", sized(SSE), CLOSE], "kept 3 | cut:")
row("keep-alive-lie", [sized(SSE, "200 OK", "text/event-stream", "Connection: keep-alive"), CLOSE], "kept 3")
row("close-lie", [sized(SSE, "200 OK", "text/event-stream", "Connection: close")], "kept 3")

BYTES = CHUNKED + piece(SSE) + LAST  # cut, and reset, at each of these bytes
