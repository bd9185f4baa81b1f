"""server.py - fake_server.py that repeats the keys it was sent, in every spelling, in every place of its messages.

The options are those of fake_server.py, in CANARY_OPTIONS. A prompt that begins with json500 or text500
gets an error. With ONLY_SAY=1 it writes them to stderr and ends.
SPDX-License-Identifier: Apache-2.0
"""
import base64
import html
import json
import os
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.environ["ROOT"], "tests", "fakes"))
sys.argv = sys.argv[:1] + os.environ["CANARY_OPTIONS"].split()
import fake_server as fake  # noqa: E402  (it reads sys.argv)

KEY = os.environ["KEY"]
PASSWORD = os.environ["PASSWORD"]


def escaped(s):
    return "".join(f"\\u{ord(c):04x}" for c in s)


def spellings(s):
    def b64(text, how=base64.b64encode):
        return how(text.encode()).decode()

    percent = "".join(f"%{ord(c):02x}" for c in s)
    text = json.dumps(s)[1:-1]
    return [s, s.lower(), s.upper(), text, text.replace("/", "\\/"), json.dumps(text)[1:-1], escaped(s), escaped(s).upper().replace("\\U", "\\u"),
            json.dumps(escaped(s))[1:-1], urllib.parse.quote(s, safe=""), urllib.parse.quote(s, safe="").lower(), urllib.parse.quote_plus(urllib.parse.quote(s, safe="")),
            percent, percent.upper(), html.escape(s), html.escape(html.escape(s)), b64(s), b64("user:" + s), b64("me:" + s), b64(f'{{"authorization": "{s}"}}'),
            b64(s, base64.urlsafe_b64encode), b64("user:" + s, base64.urlsafe_b64encode), urllib.parse.quote(b64("us:" + s), safe=""), s.encode().hex(), s.encode().hex().upper(),
            "".join(f"\\x{ord(c):02X}" for c in s)]


def is_json(s):
    """May it stand in a string of JSON as it is?"""
    try:
        return isinstance(json.loads(f'"{s}"'), str)
    except ValueError:
        return False


SAYS = spellings(KEY) + spellings(PASSWORD) + spellings("user:" + PASSWORD)
INSIDE = [s for s in SAYS if is_json(s)]
HEAD = "".join(f"X-Says-{i}: no {s}!\r\nX-{s}: 1\r\n" for i, s in enumerate(SAYS))
FIELDS = "".join(f"event: {s}\nid: {s}\n: {s}\n{s}: 1\n" for s in SAYS).encode()


def members():
    """As JSON writes it, and as a careless server does."""
    says = {f"says{i}": s for i, s in enumerate(SAYS)} | {s: i for i, s in enumerate(SAYS)}
    return json.dumps({"says": says, "list": SAYS})[1:-1] + "," + ",".join(f'"raw{i}":"{s}"' for i, s in enumerate(INSIDE))


def with_members(event):
    return (json.dumps(event)[:-1] + "," + members() + "}").encode()


class Handler(fake.Handler):
    def reply(self, status, body, kind="application/json", more=""):
        body = with_members(body) if isinstance(body, dict) else body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send(f"HTTP/1.1 {status} no {SAYS[9]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}{HEAD}\r\n".encode() + body)

    def send(self, data):
        if data.endswith(b"Transfer-Encoding: chunked\r\n\r\n"):
            data = data[:-2] + HEAD.encode() + b"\r\n"
        elif data == b"0\r\n\r\n":
            data = b"0\r\n" + HEAD.encode() + b"\r\n"
        elif b"\r\ndata: " in data:
            event = FIELDS + data.split(b"\r\n", 1)[1][:-2]
            half = len(event) // 2  # a value may lie in two chunks
            data = b"%x;%s=1\r\n%s\r\n%x\r\n%s\r\n" % (half, KEY.encode(), event[:half], len(event) - half, event[half:])
        super().send(data)

    def events(self, path, req, n, headers):
        for event in super().events(path, req, n, headers):
            yield with_members(event) if isinstance(event, dict) else event
        for i, s in enumerate(SAYS):  # texts of an answer
            say = f" no {s}!"
            if path == "/completion":
                yield {"index": 0, "content": say, "tokens": [7], "stop": False, "id_slot": -1, "tokens_predicted": n + i}
            elif path.startswith("/v1"):
                yield {"id": "x", "object": "text_completion", "created": 1, "model": "fake", "choices": [{"index": 0, "text": say, "delta": {"content": say}}]}

    def get(self, path):
        if path == "/metrics":
            name = "llamacpp" if fake.args.shape == "llamacpp" else fake.args.shape
            lines = "".join(f'{name}:tokens_total{{says="{s}",i="{i}"}} {fake.Handler.tokens}\n' for i, s in enumerate(SAYS) if '"' not in s)
            return self.reply(200, lines.encode(), "text/plain")
        if path in ("/server_info", "/get_server_info") and fake.args.shape in ("vllm", "sglang"):
            return self.reply(200, {"vllm_config": f"C(note='{KEY}', b64='{SAYS[17]}')", "version": "0.5.fake", "note": {"n": SAYS}})
        super().get(path)

    def post(self, path, req, headers):
        prompt = str(req.get("prompt", req.get("text", "")))
        if "json500" in prompt:
            return self.reply(500, {"error": {"message": "no " + " ".join(SAYS), "type": SAYS[16], "code": 500}})
        if "text500" in prompt:
            return self.reply(500, ("no " + SAYS[int(prompt[7:9])]).encode(), "text/plain")
        return super().post(path, req, headers)


if __name__ == "__main__":
    print(" ".join(SAYS), file=sys.stderr, flush=True)
    if os.environ.get("ONLY_SAY"):
        sys.exit(1)
    fake.serve(Handler)
