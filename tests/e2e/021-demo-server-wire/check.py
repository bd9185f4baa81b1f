"""check.py - HTTP as a recorder meets it: loading, chunks, a client that hangs up, errors, faults, the end.

usage: check.py DEMO-SERVER CHECKPOINT      SPDX-License-Identifier: Apache-2.0
Standard library only. Prints one line for each thing that was seen."""
import http.client
import json
import signal
import socket
import subprocess
import sys
import time

program, model = sys.argv[1:3]


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen([program, "--model", model, "--port", "0", "--served-model-name", "m", *options],
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.code = self.process.wait(timeout=20)

    def ask(self, method, path, body=None, **headers):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        c.request(method, path, json.dumps(body) if isinstance(body, dict) else body, headers)
        r = c.getresponse()
        return r.status, r.read(), dict(r.getheaders())

    def send(self, **body):
        """Send a completion request on a socket of its own."""
        s = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        b = json.dumps(dict(prompt="The sea", temperature=0, ignore_eos=True) | body)
        s.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
                  f"Content-Length: {len(b)}\r\n\r\n{b}".encode())
        return s

    def raw(self, **body):
        s, out = self.send(**body), b""
        try:
            while part := s.recv(65536):
                out += part
        except ConnectionResetError:
            pass
        return out

    def metric(self, start):
        text = self.ask("GET", "/metrics")[1].decode()
        return [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("vllm:" + start)]


def eventually(what):
    for _ in range(100):
        if what():
            return True
        time.sleep(0.05)
    return False


def see(name, ok):
    print(name if ok else f"FAIL: {name}")
    see.failed |= not ok


see.failed = False

with Server("--load-delay", "1.5") as s:
    see("503 while loading", s.ask("GET", "/health")[0] == 503 and s.ask("POST", "/v1/completions", {})[0] == 503)
    see("200 afterwards", eventually(lambda: s.ask("GET", "/health")[0] == 200))
    out = s.raw(stream=True, max_tokens=3)
    head, body = out.split(b"\r\n\r\n", 1)
    chunks = body.split(b"\r\n")
    see("one event a chunk", b"text/event-stream" in head and chunks[1].startswith(b"data: {") and chunks[7] == b"data: [DONE]\n\n")
    see("lengths of chunks", all(int(chunks[i], 16) == len(chunks[i + 1]) for i in range(0, 8, 2)))
    status, out, headers = s.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1}, **{"X-Request-Id": "one"})
    see("X-Request-Id", json.loads(out)["id"] == "cmpl-one" and headers["X-Request-Id"] == "one")
    see("unknown path", s.ask("GET", "/nothing")[:2] == (404, b'{"detail":"Not Found"}'))
    see("bad JSON", s.ask("POST", "/v1/completions", "{")[0] == 400)
    see("unknown model", s.ask("POST", "/v1/completions", {"prompt": "a", "model": "b"})[0] == 404)
    see("wrong content type", s.ask("POST", "/v1/completions", "{}", **{"Content-Type": "text/plain"})[0] == 400)
    see("too long", b"maximum context length" in s.ask("POST", "/v1/completions", {"prompt": "a" * 2000})[1])
    see("generated tokens are counted", s.metric("generation_tokens_total") == [4] and s.metric("prompt_tokens_total") == [8])
see("SIGTERM ends it with 0", s.code == 0)

with Server("--fault", "slow:20") as s:
    for stream in (True, False):
        client = s.send(stream=stream, max_tokens=900)
        see(f"running, stream={stream}", eventually(lambda: s.metric("num_requests_running") == [1]))
        client.close()
        see("a client that hangs up aborts it", eventually(lambda: s.metric("num_requests_running") == [0]))
    clients = [s.send(stream=True, max_tokens=900) for _ in range(10)]
    see("8 run, 2 wait", eventually(lambda: s.metric("num_requests_running") == [8] and s.metric("num_requests_waiting") == [2]))
see("SIGTERM with ten clients", s.code == 0)

with Server("--fault", "http500:2") as s:
    see("http500:2", [s.ask("POST", "/v1/completions", {"prompt": "a"})[0] for _ in range(4)] == [200, 500, 200, 500])
with Server("--fault", "garbage:1") as s:
    see("garbage", b"data: {\"id\": nonsense" in s.raw(stream=True, max_tokens=4))
with Server("--fault", "nul-text") as s:
    see("nul-text", b"a\\u0000b\xff\xc3(" in s.raw(stream=True, max_tokens=1))
with Server("--fault", "cut:2") as s:
    out = s.raw(stream=True, max_tokens=9)
    see("cut", out.count(b"data: ") == 3 and b"[DONE]" not in out and not out.endswith(b"0\r\n\r\n"))
    see("and it lives", s.ask("GET", "/health")[0] == 200)
with Server("--fault", "die:2") as s:
    out = s.raw(stream=True, max_tokens=9)
    see("die", out.count(b"data: ") == 2 and s.process.wait(timeout=20) == 70)
sys.exit(see.failed)
