"""server.py - a server that repeats the key that it was sent, as JSON and URLs spell it. Prints its port.
SPDX-License-Identifier: Apache-2.0
"""
import http.server
import json
import urllib.parse

KEY = 'Zq/9"x+K7mmPPw=LLo1Q'
SPELLED = (json.dumps(KEY)[1:-1], json.dumps(KEY)[1:-1].replace("/", "\\/"), urllib.parse.quote(KEY, safe=""))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, code, body, kind="application/json"):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Url", "/login?from=" + SPELLED[2])
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self):
        found = self.path == "/v1/models"
        self.answer(200 if found else 404, json.dumps({"object": "list", "data": [{"id": "demo", "object": "model"}]}) if found else "{}")

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        events = ['{"id":"r","object":"text_completion","model":"demo","choices":[{"index":0,"text":" you sent %s","finish_reason":null}]}' % s for s in SPELLED]
        self.answer(200, "".join(f"data: {e}\n\n" for e in events + ["[DONE]"]), "text/event-stream")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
