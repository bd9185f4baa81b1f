#!/usr/bin/env python3
"""canary_server.py - fake_server.py with a canary in every place of its messages.

A canary is a word that is found again wherever it is kept: canary-s-PLACE is a secret, canary-t-PLACE
is text, canary-k-PLACE may be kept. A number that begins with 7700 is a text too. The request's own
secrets come back: the value of X-Team is echoed, and so is the key, in the body of an error.
Prompts that begin with a fault's name get that fault: json500, text500, string500, list400.
The options are those of fake_server.py, in CANARY_OPTIONS; the command line is only there to be
recorded.
SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.argv = sys.argv[:1] + os.environ.get("CANARY_OPTIONS", "--dev").split()
import fake_server as fake  # noqa: E402  (it reads sys.argv)

HEAD = ("Set-Cookie: id=canary-s-cookie\r\n continued=canary-s-folded\r\nX-Auth-Token: canary-s-authtoken\r\n"
        "X-Refresh-Token-Value: canary-s-refresh\r\nAuthorization : Bearer canary-s-blank\r\nX-Amz-Credential: canary-s-amz\r\n"
        "X-Session-Id: canary-s-session\r\nLink: </next?api_key=canary-s-link>\r\nX-Team: canary-s-team\r\n"
        "Authentication-Info: nextnonce=canary-s-nonce\r\n"
        "Server: canary-t-server\r\nVary: Accept, canary-t-vary\r\n"
        "X-Note: canary-t-header\r\nCanary-T-Name: 1\r\nETag: canary-t-etag\r\n")
TRAILERS = "Set-Cookie: canary-s-trailercookie\r\nX-Api-Key : canary-s-trailerkey\r\nX-Checksum: canary-t-trailer\r\n"
FIELDS = b"event: canary-t-event\nid: canary-t-id\nretry: canary-t-retry\ncanary-t-field: 1\n: canary-t-comment\n"

# Names of secrets that are spelled in another way: a digit at the end of a word, words in one, rare ones.
NAMES = ["api_key2", "accessToken1", "passphrase2", "jwt1", "signature2", "token_v2", "hf_token_2", "keys", "creds", "private_pem", "pem",
         "kubeconfig", "netrc", "authn", "auth_header", "otp", "pin", "hmac", "sas", "sessionid", "csrf", "xsrf", "PGPASSWORD", "passWord",
         "connection_string", "webhook_url", "unlock_code", "oauth2token"]
HEADERS = ["Set-Cookie2", "X-Cookie2", "X-Access-Token1", "X-Apikey1", "X-Passwd2", "X-Credentials2", "X-Goog-Signature1", "X-Sid", "X-Xsrf",
           "X-CSRF", "X-Amzn-Oidc-Data", "X-Api-Key-2", "X-Jwt-Assertion2", "X-Forwarded-Client-Cert", "DPoP"]
# Names that models and their servers use, and that hold no secret.
KEPT = ["tokens", "prompt_tokens", "max_num_batched_tokens", "token_ids", "stop_token_ids", "key_cache", "num_key_value_heads", "kv_cache_dtype",
        "pin_memory", "spin", "bos_token", "eos_token", "num_experts_per_token", "pass_config", "bypass", "tokenizer_mode", "sigmoid",
        "cache_salt", "keep_alive", "key_value_heads"]
HEAD += "".join(f"{name}: canary-s-head{i}\r\n" for i, name in enumerate(HEADERS))
HEAD += ("X-Json: {\"key\": \"api_key\", \"value\": \"canary-s-headjson1\", \"k\": \"v\"}\r\nX-List: [[\"jwt1\", \"canary-s-headjson2\"]]\r\n"
         "X-Words: token1=canary-s-headwords; max_tokens=5\r\n")
TRAILERS += "".join(f"{name}: canary-s-trailer{i}\r\n" for i, name in enumerate(HEADERS))


def text_members():
    return {"summary": "canary-t-summary", "transcript": ["canary-t-transcript"], "canary-t-member": 1, "phone": 770001,
            "deep": {"a": [{"b": ["canary-t-deep", {"canary-t-deepmember": True}], "n": [770002]}]},
            "tool_calls": [{"function": {"name": "canary-t-tool", "arguments": {"city": "canary-t-arg", "n": 770003}}}],
            "refusal": "canary-t-refusal", "annotations": [{"url": "canary-t-url", "title": "canary-t-title"}],
            "audio": {"transcript": "canary-t-audio", "data": "canary-t-audiodata"}, "stop_reason": "canary-t-stopreason",
            "role": "canary-t role with blanks"}


INFO = {
    "api_key": "canary-s-info1", "server_args": {"api_key": ["canary-s-info2"], "admin_api_key": {"x": "canary-s-info3"}},
    "authorization": {"a": {"b": "canary-s-info4"}}, "credentials": [{"user": "canary-s-info5"}], "aws_access_key_id": "canary-s-info6",
    "vllm_config": "ModelConfig(model='x', hf_token='canary-s-info7', extra={'api_key': 'canary-s-info8'})",
    "env": ["HF_TOKEN=canary-s-info9"], "cmd": ["--api-key", "canary-s-info10", "canary-s-info11"], "proxy": "http://u:canary-s-info12@h/",
    "passphrase": "canary-s-info13", "pat": "canary-s-info14", "accessToken": "canary-s-info15", "sessionCookies": ["canary-s-info16"],
    "headers": "Authorization: Bearer canary-s-info17", "dsn": "postgres://u:canary-s-info18@h/db", "pin_secret": 880001,
    "more": {name: f"canary-s-name{i}" for i, name in enumerate(NAMES)}, "below": {name: [{"x": f"canary-s-below{i}"}] for i, name in enumerate(NAMES)},
    "repr": "Args(" + ", ".join(f"{name}='canary-s-repr{i}'" for i, name in enumerate(NAMES)) + ")",
    "lines": [f"{name}=canary-s-line{i} of two words" for i, name in enumerate(NAMES) if name.isidentifier()],
    "pairs": [{"key": "api_key", "value": "canary-s-pair1"}, {"name": "Authorization", "val": "canary-s-pair2"}, {"k": "HF_TOKEN", "v": "canary-s-pair3"},
              ["api_key", "canary-s-pair4"], ["jwt1", {"x": ["canary-s-pair5"]}], {"v": "canary-s-pair6", "k": "token1"},
              {"name": "hf_token", "value": "canary-s-pair7", "source": "env"}, ["canary-s-pair8", "api_key2"], {"thing": "csrf", "other": 880002}],
    "pairtexts": ['{"key": "api_key", "value": "canary-s-pairtext1"}', "[('Authorization', 'canary-s-pairtext2'), (b'x-api-key', b'canary-s-pairtext3')]",
                  "Env(name='HF_TOKEN', value='canary-s-pairtext4', n=1)", '{"a": "{\\"k\\": \\"jwt1\\", \\"v\\": \\"canary-s-pairtext5\\"}"}'],
    "kept": {name: f"canary-t-kept{i}" for i, name in enumerate(KEPT)}, "keptrepr": ", ".join(f"{name}='canary-t-reprkept{i}'" for i, name in enumerate(KEPT)),
    "note": "canary-t-info", "canary-t-infomember": {"x": "canary-t-info2"}}


class Handler(fake.Handler):
    key = ""

    def reply(self, status, body, kind="application/json", more=""):
        if isinstance(body, dict):
            body = body | text_members()
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send(f"HTTP/1.1 {status} canary-t-reason\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}{HEAD}\r\n".encode() + body)

    def send(self, data):
        if data.endswith(b"Transfer-Encoding: chunked\r\n\r\n"):
            data = data[:-2] + HEAD.encode() + b"Trailer: X-Checksum\r\n\r\n"
        elif data == b"0\r\n\r\n":
            data = b"0\r\n" + TRAILERS.encode() + b"\r\n"
        elif b"\r\ndata: " in data:
            event = data.split(b"\r\n", 1)[1][:-2]
            data = b"%x;canary-t-chunk=1\r\n%s%s\r\n" % (len(FIELDS) + len(event), FIELDS, event)
        super().send(data)

    def events(self, path, req, n, headers):
        for event in super().events(path, req, n, headers):
            yield event | text_members() if isinstance(event, dict) else event

    def get(self, path):
        if path == "/metrics":
            n = fake.Handler.tokens
            engine = fake.args.shape
            return self.reply(200, f'{engine}:tokens_total{{api_key="canary-s-label",user="canary-t-label",engine="canary-k-engine"}} {n}\n'.encode(), "text/plain")
        if path in ("/server_info", "/get_server_info") and fake.args.shape in ("vllm", "sglang"):
            return self.reply(200, INFO)
        if path == "/v1/models" and fake.args.shape == "vllm":
            return self.reply(200, {"object": "list", "data": [{"id": "canary-k-model", "object": "model", "owned_by": "vllm", "max_model_len": 1024,
                                                                 "root": "/models/canary-k-root", "permission": [{"id": "canary-t-permission"}]}]})
        super().get(path)

    def post(self, path, req, headers):
        prompt = str(req.get("prompt", ""))
        if "json500" in prompt:
            return self.reply(500, {"error": {"message": f"canary-t-error: bad key {headers.get('authorization')}", "type": "canary-t type", "param": "canary-t-param", "code": 500}})
        if "text500" in prompt:
            return self.reply(500, b"Internal canary-t-plainerror\n", "text/plain")
        if "string500" in prompt:
            return self.reply(500, b'"canary-t-errorstring"')
        if "list400" in prompt:
            return self.reply(400, b'[["canary-t-errorlist", 770004]]')
        return super().post(path, req, headers)


if __name__ == "__main__":
    print("api_key=canary-s-log", file=sys.stderr, flush=True)
    fake.serve(Handler)
