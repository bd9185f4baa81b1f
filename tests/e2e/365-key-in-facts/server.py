"""server.py - fake_server.py that puts the key it was sent into all that it says of itself.

It says it in two spellings, as it is and in base64, and where a text is cut. ECHO=model: the model's
name is the key. The options are those of fake_server.py, in CANARY_OPTIONS.
SPDX-License-Identifier: Apache-2.0
"""
import base64
import json
import os
import sys

sys.path.insert(0, os.path.join(os.environ["ROOT"], "tests", "fakes"))
sys.argv = sys.argv[:1] + os.environ["CANARY_OPTIONS"].split()
import fake_server as fake  # noqa: E402  (it reads sys.argv)

KEY = os.environ["KEY"]
SAYS = f"0.26 {KEY} {base64.b64encode(KEY.encode()).decode()} " + "x" * (127 - 35 - 3 * len(KEY)) + KEY
NAME = KEY if os.environ.get("ECHO") == "model" else "fake"


class Handler(fake.Handler):
    def reply(self, status, body, kind="application/json", more=""):
        super().reply(f"{status} {KEY}", body, kind, f"Location: http://{KEY}/\r\nX-Says: {KEY}\r\n" + more)

    def get(self, path):
        shape = fake.args.shape
        if os.environ.get("ECHO") == "status":
            return self.reply(307 if path == "/health" else 404, b"")
        if os.environ.get("ECHO") == "loading" and path == "/health":
            return self.reply(503, {"error": {"message": "no " * 20 + KEY + " " + KEY, "code": 503}})
        if path == "/version" and shape == "vllm":
            return self.reply(200, {"version": SAYS})
        if path == "/props" and shape == "llamacpp":
            return self.reply(200, {"build_info": SAYS, "model_path": f"/m/{NAME}.gguf", "default_generation_settings": {"n_ctx": 512}})
        if path == "/get_server_info" and shape == "sglang":
            return self.reply(200, {"version": SAYS, "context_length": 512})
        if path == "/v1/models":
            return self.reply(200, {"object": "list", "data": [{"id": NAME, "object": "model", "owned_by": shape, "max_model_len": 1024, "root": "/" + KEY,
                                                                 "meta": {"n_params": 5, "ftype": KEY}}]})
        super().get(path)

    def events(self, path, req, n, headers):
        for event in super().events(path, req, n, headers):
            if isinstance(event, dict):
                event |= {"system_fingerprint": KEY, "id": KEY, "model": NAME}
                for c in event.get("choices", []):
                    c["stop_reason"] = KEY
                    c["finish_reason"] = c.get("finish_reason") and KEY
            yield event

    def post(self, path, req, headers):
        if "json500" in str(req.get("prompt", "")):
            return self.reply(500, {"error": {"message": "x" * 260 + KEY + " " + SAYS, "code": KEY}})
        return super().post(path, req, headers)


if __name__ == "__main__":
    fake.serve(Handler)
